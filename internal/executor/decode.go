package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Decoding is most of what a start over many open runs costs, so the events of
// a run that waits for people are decoded by hand (decode_event.go), in a
// quarter of the time and a fifth of the allocations that encoding/json needs.
// What the hand does not take, encoding/json judges: both mean the same, and a
// test holds them against each other, field by field.

// decoder decodes the events of runs. It belongs to one goroutine at a time.
// The zero value is ready; with recent it lets events share their texts.
type decoder struct {
	scan   playbook.Scanner
	recent *texts
	now    machine.Event // being decoded; here, because it would be garbage otherwise

	strings []string // scratch
	guards  []machine.GuardVerdict
	needs   []machine.Need
	changes []machine.FieldChange
	slos    []playbook.SLO

	gathered []machine.Gathered
	examined []machine.Examined
}

// event decodes a record of a run's stream.
func event(r audit.Record) (machine.Event, error) {
	var d decoder
	return d.event(r)
}

func (d *decoder) event(r audit.Record) (machine.Event, error) {
	d.now = machine.Event{Kind: machine.EventKind(r.Kind)}
	d.scan = playbook.ScanJSON(r.Data)
	if d.fields(&d.now) == nil && d.scan.End() == nil {
		return d.now, nil
	}
	e := machine.Event{Kind: machine.EventKind(r.Kind)}
	if err := json.Unmarshal(r.Data, &e); err != nil {
		return e, fmt.Errorf("decode event %s, entry %d of the journal: %w", r.Kind, r.Seq, err)
	}
	return e, nil
}

// texts are strings that were met lately. Ten thousand waiting runs say mostly
// the same: label names, the words of guards, digests.
type texts struct {
	seed  maphash.Seed
	known [4096]string
}

const longText = 160 // bytes; longer ones are not looked for

func newTexts() *texts { return &texts{seed: maphash.MakeSeed()} }

// of returns b as a string, one that was met before if it can.
func (t *texts) of(b []byte) string {
	if t == nil || len(b) > longText {
		return string(b)
	}
	at := &t.known[maphash.Bytes(t.seed, b)%uint64(len(t.known))]
	if *at != string(b) {
		*at = string(b)
	}
	return *at
}

// problem is why the hand gave up: only that it did matters.
type problem = playbook.FieldError

// notByHand makes the decoder give up.
func notByHand(why error) *problem { return &problem{Offset: -1, Problem: why.Error()} }

// text decodes a string.
func text[T ~string](d *decoder, to *T) *problem {
	if d.scan.Null() {
		return nil
	}
	b, err := d.scan.Text()
	if err != nil {
		return err
	}
	*to = T(d.recent.of(b))
	return nil
}

// object decodes an object into what to is, or null.
func (d *decoder) object(fields []string, value func(field string) *problem) *problem {
	if d.scan.Null() {
		return nil
	}
	return d.scan.Object(fields, value)
}

// pointer decodes what may be absent.
func pointer[T any](d *decoder, to **T, value func(*T) *problem) *problem {
	if d.scan.Null() {
		return nil
	}
	*to = new(T)
	return value(*to)
}

// list decodes an array into a slice without spare room. What it needs for that
// it takes from scratch.
func list[T any](d *decoder, to, scratch *[]T, element func(*T) *problem) *problem {
	if d.scan.Null() {
		return nil
	}
	all := (*scratch)[:0]
	err := d.scan.Array(func(i int) *problem {
		var zero T
		all = append(all, zero)
		return element(&all[i])
	})
	*to = make([]T, len(all))
	copy(*to, all)
	clear(all)
	*scratch = all
	return err
}

// texts decodes an array of strings.
func (d *decoder) texts(to *[]string) *problem {
	return list(d, to, &d.strings, func(s *string) *problem { return text(d, s) })
}

// labels decodes an object of strings.
func (d *decoder) labels(to *map[string]string) *problem {
	if d.scan.Null() {
		return nil
	}
	var names, values [24]string // most alerts have fewer: the map gets its size at once
	var more map[string]string
	n := 0
	err := d.scan.Entries(func(name []byte) *problem {
		key, value := d.recent.of(name), ""
		if err := text(d, &value); err != nil {
			return err
		}
		if n < len(names) {
			names[n], values[n] = key, value
			n++
			return nil
		}
		if more == nil {
			more = map[string]string{}
		}
		more[key] = value
		return nil
	})
	out := make(map[string]string, n+len(more))
	for i := range n {
		out[names[i]] = values[i]
	}
	for k, v := range more {
		out[k] = v
	}
	*to = out
	return err
}

// values decodes an object of anything.
func (d *decoder) values(to *map[string]any) *problem {
	if d.scan.Null() {
		return nil
	}
	*to = map[string]any{}
	return d.scan.Entries(func(name []byte) *problem {
		key := d.recent.of(name)
		b, err := d.scan.Raw()
		if err != nil {
			return err
		}
		if b[0] == '"' && !bytes.ContainsRune(b, '\\') { // most are text
			(*to)[key] = d.recent.of(b[1 : len(b)-1])
			return nil
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return notByHand(err)
		}
		(*to)[key] = v
		return nil
	})
}

// raw keeps a value as it stands.
func (d *decoder) raw(to *json.RawMessage) *problem {
	b, err := d.scan.Raw()
	*to = append(json.RawMessage{}, b...)
	return err
}

// other leaves a value to encoding/json: a seldom one.
func (d *decoder) other(to any) *problem {
	b, err := d.scan.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return notByHand(err)
	}
	return nil
}

// at decodes a time.
func (d *decoder) at(to *time.Time) *problem {
	b, err := d.scan.Raw()
	if err != nil {
		return err
	}
	if err := to.UnmarshalJSON(b); err != nil {
		return notByHand(err)
	}
	return nil
}

// whole decodes a whole number.
func whole[T ~int | ~int64](d *decoder, to *T) *problem {
	if d.scan.Null() {
		return nil
	}
	b, err := d.scan.Raw()
	if err != nil {
		return err
	}
	n, bad := strconv.ParseInt(string(b), 10, 64)
	if bad != nil {
		return notByHand(bad)
	}
	*to = T(n)
	return nil
}

// number decodes any number.
func (d *decoder) number(to *float64) *problem {
	if d.scan.Null() {
		return nil
	}
	b, err := d.scan.Raw()
	if err != nil {
		return err
	}
	n, bad := strconv.ParseFloat(string(b), 64)
	if bad != nil {
		return notByHand(bad)
	}
	*to = n
	return nil
}

// window decodes a duration that is written as people write it.
func (d *decoder) window(to *time.Duration) *problem {
	b, err := d.scan.Text()
	if err != nil {
		return err
	}
	var bad error
	if *to, bad = playbook.ParseDuration(string(b)); bad != nil {
		return notByHand(bad)
	}
	return nil
}

// level decodes a level of autonomy.
func (d *decoder) level(to *playbook.Autonomy) *problem {
	if d.scan.Null() {
		return nil
	}
	b, err := d.scan.Text()
	if err != nil {
		return err
	}
	if err := to.UnmarshalText(b); err != nil {
		return notByHand(err)
	}
	return nil
}

// truth decodes a truth value.
func (d *decoder) truth(to *bool) *problem {
	b, err := d.scan.Raw()
	if err != nil {
		return err
	}
	switch string(b) {
	case "true":
		*to = true
	case "false":
		*to = false
	case "null":
	default:
		return notByHand(strconv.ErrSyntax)
	}
	return nil
}
