// Package io names the directory of temporary files.
package io

// TempDir is empty: the operating system's.
var TempDir string
