// Package config turns responder.yaml into checked options, one file for each
// subject. [Load] reads a file strictly: every problem has its file, line, column
// and field path, and all of them are reported at once. The struct tags are the
// reference documentation.
//
// It opens no connection. What it configures is built by package app.
package config
