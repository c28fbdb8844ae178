package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
)

// maxFile bounds a file of notifications.
const maxFile = 1 << 30

// Decode turns a body of Alertmanager into a notification.
type Decode func(body []byte) (playbook.Notification, error)

// Files are notifications that were read from files.
type Files struct {
	Notifications []playbook.Notification
	Problems      []string // FILE:LINE: what could not be read
	Guessed       int      // notifications without a time of receipt; see [ReadFiles]
}

// ReadFiles reads bodies of Alertmanager from a file or from the files *.json, *.jsonl
// and *.ndjson of a directory: one body, or one a line. What cannot be read is a
// problem, and the rest is read. A body has a time of receipt only where it is copied
// from a journal; any other counts as received when the newest of its alerts began or
// ended.
func ReadFiles(path string, decode Decode) (Files, error) {
	var out Files
	names := []string{path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, fmt.Errorf("there is no file %s; --notifications names a file or a directory of bodies that Alertmanager posted", path)
	case err != nil:
		return out, fmt.Errorf("read notifications: %w", err)
	case info.IsDir():
		entries, err := os.ReadDir(path)
		if err != nil {
			return out, fmt.Errorf("read notifications: %w", err)
		}
		names = nil
		for _, e := range entries {
			if slices.Contains([]string{".json", ".jsonl", ".ndjson"}, filepath.Ext(e.Name())) && !e.IsDir() {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
		if len(names) == 0 {
			return out, fmt.Errorf("%s has no files *.json, *.jsonl or *.ndjson; each is a body that Alertmanager posted, or has one a line", path)
		}
	}
	for _, name := range names {
		data, err := readFile(name)
		if err != nil {
			return out, err
		}
		out.read(name, data, decode)
	}
	return out, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read notifications: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d MiB; split it", maxFile>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("read notifications %s: %w", name, err)
	}
	return data, nil
}

// read reads the bodies of a file. After one that is no JSON it goes on with the next
// line.
func (f *Files) read(name string, data []byte, decode Decode) {
	line := 1
	problem := func(at int, err error) {
		f.Problems = append(f.Problems, fmt.Sprintf("%s:%d: %v", name, at, err))
	}
	for {
		rest := bytes.TrimLeft(data, " \t\r\n")
		line += bytes.Count(data[:len(data)-len(rest)], []byte("\n"))
		if data = rest; len(data) == 0 {
			return
		}
		var body json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(data))
		if err := dec.Decode(&body); err != nil {
			problem(line+bytes.Count(data[:min(offset(err, len(data)), len(data))], []byte("\n")), notJSON(err))
			_, next, _ := bytes.Cut(data, []byte("\n"))
			// The lines of a body that breaks off are no bodies of their own.
			for len(next) > 0 && next[0] != '{' {
				line++
				_, next, _ = bytes.Cut(next, []byte("\n"))
			}
			line, data = line+1, next
			continue
		}
		f.add(line, body, decode, problem)
		end := dec.InputOffset()
		line += bytes.Count(data[:end], []byte("\n"))
		data = data[end:]
	}
}

func (f *Files) add(line int, body []byte, decode Decode, problem func(int, error)) {
	n, err := decode(body)
	if err != nil {
		at := line
		if field := new(playbook.FieldError); errors.As(err, &field) && field.Offset > 0 {
			at += bytes.Count(body[:min(field.Offset, len(body))], []byte("\n"))
		}
		problem(at, err)
		return
	}
	if n.ReceivedAt.IsZero() {
		f.Guessed++
		n = Received(n)
	}
	f.Notifications = append(f.Notifications, n)
}

// Received gives a notification the time at which the newest of its alerts began or
// ended as its time of receipt.
func Received(n playbook.Notification) playbook.Notification {
	for _, a := range n.Alerts {
		at := a.StartsAt
		if a.Status == playbook.Resolved && a.EndsAt.After(at) {
			at = a.EndsAt
		}
		if at.After(n.ReceivedAt) {
			n.ReceivedAt = at
		}
	}
	n.ReceivedAt = n.ReceivedAt.UTC()
	return n
}

// offset returns where in the data the JSON is wrong.
func offset(err error, size int) int {
	if bad := new(json.SyntaxError); errors.As(err, &bad) && bad.Offset > 0 {
		return int(bad.Offset) - 1
	}
	return size
}

func notJSON(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON breaks off; a body of Alertmanager is one object")
	}
	return fmt.Errorf("this is not JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
}
