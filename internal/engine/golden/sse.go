package golden

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits of one event stream.
const (
	maxLine   = 256 << 10
	maxStream = 4 << 20
)

// errTooLarge is the error of a stream beyond its limits.
var errTooLarge = errors.New("its stream is larger than a completion can be")

// events reads server-sent events: the data of each, whatever its type. Lines end
// with LF, CR LF or CR; comments, which proxies send to keep a connection, are no
// events. An event that the stream ends within is dropped, as the standard has it.
type events struct {
	r     *bufio.Reader
	read  int
	began bool // the first line was read
	skip  bool // the last line ended with CR: an LF that follows belongs to it
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

// next returns the data of the next event; io.EOF: there is none.
func (e *events) next() ([]byte, error) {
	var data []byte
	some := false
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if some {
				return data, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) != "data" {
			continue
		}
		if some {
			data = append(data, '\n')
		}
		some = true
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(data) > maxLine {
			return nil, errTooLarge
		}
	}
}

// line returns the next line without its end. The rest behind the last end of line
// is no line: the stream broke off within it.
func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.read++; e.read > maxStream {
			return nil, errTooLarge
		}
		if e.skip && c == '\n' {
			e.skip = false
			continue
		}
		if e.skip = c == '\r'; e.skip || c == '\n' {
			break
		}
		if line = append(line, c); len(line) > maxLine {
			return nil, errTooLarge
		}
	}
	if !e.began {
		e.began = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line, nil
}
