package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxBytes limits an encoded snapshot. Sixteen GPUs with all links and a full
// history take about a quarter of it.
const MaxBytes = 1 << 20

// Encode encodes a snapshot. It refuses what Decode would refuse.
func Encode(s Snapshot) ([]byte, error) {
	s.Format = Format
	if s.GPUs == nil {
		s.GPUs = []GPU{} // a node without GPUs says so
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("encode snapshot: %d bytes are more than %d", len(b), MaxBytes)
	}
	return b, nil
}

// Decode reads a snapshot strictly: one document, no unknown field, within the
// limits. Implausible values are left to the judge package. A newer agent's new
// fields are refused, because they might describe the fault.
func Decode(data []byte) (Snapshot, error) {
	if len(data) > MaxBytes {
		return Snapshot{}, fmt.Errorf("decode snapshot: %d bytes are more than %d", len(data), MaxBytes)
	}
	s, ok := decodeByHand(data)
	if !ok {
		s = Snapshot{}
		if err := strict(data, &s); err != nil {
			return Snapshot{}, fmt.Errorf("decode snapshot: %w", err)
		}
	}
	if err := s.check(); err != nil {
		return Snapshot{}, fmt.Errorf("decode snapshot: %w", err)
	}
	return s, nil
}

// strict decodes exactly one JSON value without unknown fields.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}
