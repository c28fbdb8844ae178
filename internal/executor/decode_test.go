package executor

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// decodedByHand decodes a record by hand, gives why that was not possible, and
// fails when encoding/json says otherwise.
func decodedByHand(t *testing.T, rec audit.Record) *problem {
	t.Helper()
	d := decoder{scan: playbook.ScanJSON(rec.Data), recent: newTexts()}
	var got, want machine.Event
	if why := d.fields(&got); why != nil {
		return why
	}
	if why := d.scan.End(); why != nil {
		return why
	}
	if err := json.Unmarshal(rec.Data, &want); err != nil {
		t.Fatalf("decoded by hand, and encoding/json says %v: %s", err, rec.Data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded by hand it differs:\n%s\n%s", diff, rec.Data)
	}
	return nil
}

// Every field of an event, however deep, is decoded by hand as encoding/json
// decodes it. This fails for a field that somebody adds and tells the decoder
// nothing of.
func TestDecodedByHand(t *testing.T) {
	for _, size := range []int{0, 1, 2, 30} {
		var ev machine.Event
		(&filler{size: size}).fill(t, reflect.ValueOf(&ev).Elem())
		rec, err := record(ev)
		if err != nil {
			t.Fatal(err)
		}
		if why := decodedByHand(t, rec); why != nil {
			t.Errorf("with %d elements in a list it is not decoded by hand, tell decode_event.go or decode_plan.go of the field: %v", size, why)
		}
	}
}

// What is not as this program writes it is left to encoding/json.
func TestDecodedByOthers(t *testing.T) {
	for _, data := range []string{
		`null`, `{"AT":"2026-11-21T08:00:00Z"}`, `{"state":"a","state":"b"}`, `{"later":1}`, `{"visit":1.0}`, `{"state":"` + "\xff" + `"}`,
		`{"at":"yesterday"}`, `{"start":{"service":{"slos":[{"name":"ttft"}]}}}`, `{"state":"a"} {}`, `{"start":{"autonomy":"more"}}`,
	} {
		if decodedByHand(t, audit.Record{Kind: "k", Data: []byte(data)}) == nil {
			t.Errorf("decoded by hand: %s", data)
		}
	}
}

// filler returns every field a value that no other has.
type filler struct {
	size int // of lists and maps
	n    int
}

func (f *filler) fill(t *testing.T, v reflect.Value) {
	t.Helper()
	f.n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 21, 8, 0, f.n%60, f.n, time.UTC)
		return
	case *json.RawMessage:
		*x = fmt.Appendf(nil, `{"n":[%d]}`, f.n)
		return
	case *playbook.Autonomy:
		*x = playbook.Auto
		return
	case *time.Duration:
		*x = time.Duration(f.n) * time.Minute
		return
	case *any:
		*x = []any{"a \"text\" \u00e9 of " + fmt.Sprint(f.n), float64(f.n), true, nil, map[string]any{"k": "v"}}[f.n%5]
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.size, f.size))
		for i := range f.size {
			f.fill(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.size {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(t, key)
			f.fill(t, value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text \"%d\" <é>", f.n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n) / 7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("a field of kind %s: say here what it may be", v.Kind())
	}
}
