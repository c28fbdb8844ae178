// Package kustomize builds the kustomizations of a tree, as far as they concern
// one workload, so that every part of an object still belongs to the file it is
// written in.
//
// [Build] follows resources, bases, components, patches (strategic and JSON),
// replicas, namespace, name prefixes and suffixes, and the generators of
// ConfigMaps. It builds the kustomizations that are not deployed too: they tell
// what else a file is used for, so that [Builds.CheckShared] refuses a change that
// would change another target. [Whole] builds one with every object of it, so that
// the results before and after an edit can be compared.
//
// Anything else that may change a command line, environment or replicas is an
// error: replacements, transformers, vars, patches selected by label, and copy and
// move in JSON patches.
package kustomize
