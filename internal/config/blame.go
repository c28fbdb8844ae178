package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Blame adds to an error the place of the setting that it comes from: among the
// blocks of the configuration that were used, of the field whose file, directory
// or context the error names; else of the block, when it is one. What has a
// place already keeps it.
func (c Config) Blame(err error, blocks ...string) error {
	var placed yamldoc.Problems
	if err == nil || c.File == "" || errors.As(err, &placed) {
		return err
	}
	text, path, most := err.Error(), "", 0
	for _, block := range blocks {
		eachText(reflect.ValueOf(c), "", func(at, name string, v reflect.Value) {
			value := v.String()
			if !strings.HasPrefix(at, block) || !namesPath(name) && name != "context" {
				return
			}
			weight := len(value)
			if name == "context" && strings.Contains(text, strconv.Quote(value)) {
				weight += len(text) // the message names the kubeconfig, too
			}
			if weight > most && strings.Contains(text, value) {
				path, most = at, weight
			}
		})
	}
	if path == "" && len(blocks) == 1 {
		path = blocks[0]
	}
	if path == "" {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	at := c.set.of(path)
	return fmt.Errorf("%s:%d:%d: %s: %w", c.File, at.line, at.column, path, err)
}

// Problem returns an error with the place of the setting that it is about.
func (c Config) Problem(path string, err error) yamldoc.Problem {
	at := c.set.of(path)
	return yamldoc.Problem{File: c.File, Line: at.line, Column: at.column, Path: path, Message: err.Error()}
}

// Unread is blame for what is read from a file or directory that the field names:
// an error that is not of the file system is about a place in there.
func (c Config) Unread(err error, field string) error {
	var missing *fs.PathError
	if !errors.As(err, &missing) {
		return err
	}
	return c.Blame(err, field)
}

// namesPath reports whether a field is the path of a file or directory.
func namesPath(field string) bool {
	return strings.HasSuffix(field, "file") || field == "dir" || field == "archive" || field == "kubeconfig"
}

// eachText calls f with the path, the name and the value of every string of a
// configuration. A value can be set when v is a pointer.
func eachText(v reflect.Value, path string, f func(path, field string, value reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachText(v.Elem(), path, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("yaml")
			if name == "" {
				continue
			}
			if field := v.Field(i); field.Kind() == reflect.String {
				f(Join(path, name), name, field)
			} else {
				eachText(field, Join(path, name), f)
			}
		}
	}
}
