// Package playbook is the language: it loads YAML playbooks, compiles their CEL
// and PromQL, analyses their graphs and matches alerts against them.
//
// It reads files only in [LoadDir] and [Watch]; everything else works on values. It knows the
// kinds of steps only as declarations ([Kind]) that its caller hands in, and it
// runs nothing. A [Playbook] is immutable.
package playbook
