package gpu

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// byHand holds the hand against encoding/json: what it takes, encoding/json
// takes, too, and as the same.
func byHand(t interface{ Fatalf(string, ...any) }, data []byte) bool {
	hand, ok := decodeByHand(data)
	if !ok {
		return false
	}
	var want Snapshot
	if err := strict(data, &want); err != nil {
		t.Fatalf("decoded by hand, and encoding/json refuses it: %v\n%s", err, data)
	}
	if !reflect.DeepEqual(hand, want) {
		t.Fatalf("decoded by hand as\n%+v\nand by encoding/json as\n%+v", hand, want)
	}
	return true
}

// fill gives every field a value, or leaves it out, or makes it unknown. Texts
// are made of some characters.
func fill(t *rapid.T, v reflect.Value, characters string) {
	if _, ok := v.Addr().Interface().(losable); ok {
		if why := rapid.SampledFrom(append(Absences(), "", "", "", "")).Draw(t, "why"); why != "" {
			v.Addr().Interface().(losable).lose(why)
			return
		}
		value := reflect.New(v.Field(0).Type()).Elem()
		fill(t, value, characters)
		known(t, v, value)
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(noon.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "at")))))
		return
	case Absence:
		v.Set(reflect.ValueOf(rapid.SampledFrom(Absences()).Draw(t, "reason")))
		return
	case map[Reasons]int:
		bits := rapid.Custom(func(t *rapid.T) Reasons { return Reasons(rapid.Uint64().Draw(t, "bit")) })
		v.Set(reflect.ValueOf(rapid.MapOfN(bits, rapid.Int(), 0, 3).Draw(t, "reasons")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() == reflect.TypeFor[ReadError]() || rapid.IntRange(0, 9).Draw(t, "there") > 0 { // without a reason it is none
				fill(t, v.Field(i), characters)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, "n"), 2))
		for i := range v.Len() {
			fill(t, v.Index(i), characters)
		}
	case reflect.String:
		v.SetString(rapid.StringMatching(characters+`{0,12}`).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	default:
		t.Fatalf("no values for %s", v.Type())
	}
}

// known makes the reading at v one of the value.
func known(t *rapid.T, v, value reflect.Value) {
	switch r := v.Addr().Interface().(type) {
	case *Reading[int64]:
		*r = Known(value.Int())
	case *Reading[uint64]:
		*r = Known(value.Uint())
	case *Reading[bool]:
		*r = Known(value.Bool())
	case *Reading[Reasons]:
		*r = Known(Reasons(value.Uint()))
	case *Reading[FabricState]:
		*r = Known(FabricState(value.Int()))
	case *Reading[RecoveryAction]:
		*r = Known(RecoveryAction(value.Int()))
	case *Reading[[]Pod]:
		*r = Known(value.Interface().([]Pod))
	default:
		t.Fatalf("a reading of a kind that is new: %s", v.Type())
	}
}

// TestHandAgrees decodes random snapshots both ways, as they are written and
// with some bytes of them replaced, left out or repeated. One whose texts need
// no escapes is decoded by hand.
func TestHandAgrees(t *testing.T) {
	taken, spoiled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var s Snapshot
		// Half of them without what JSON escapes.
		fill(t, reflect.ValueOf(&s).Elem(), rapid.SampledFrom([]string{`[ -~]`, `[ !#-%'-;=?-\[\]-~]`}).Draw(t, "characters"))
		if s.GPUs == nil {
			s.GPUs = []GPU{} // as Encode does
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if byHand(t, data) {
			taken++
		} else if !strings.ContainsAny(string(data), `\`) && !strings.Contains(string(data), `"why":""`) {
			t.Fatalf("the hand gives up on what is written as always: %.2000s", data)
		}
		for range 20 {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			to := min(len(data), at+rapid.IntRange(0, 30).Draw(t, "long"))
			with := rapid.SampledFrom([]string{
				"", "0", "-", "1", ".5", "e3", "null", "{}", "[]", ",", `"`, " ", "\x7f", "é", `\u0041`, "true", string(data[at:to]),
			}).Draw(t, "with")
			on := rapid.SampledFrom([]int{at, to}).Draw(t, "on")
			if byHand(t, slices.Concat(data[:at], []byte(with), data[on:])) {
				spoiled++
			}
		}
	})
	if taken == 0 || spoiled == 0 {
		t.Errorf("%d decoded by hand, %d of the changed ones: nothing was compared", taken, spoiled)
	}
}

// TestHandTakesWhatAgentsWrite, for that is what it is for.
func TestHandTakesWhatAgentsWrite(t *testing.T) {
	for _, s := range []Snapshot{snapshot(), snapshot(h100(0), h100(1))} {
		data, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if !byHand(t, data) {
			t.Error("the hand gives up")
		}
	}
}

// TestHandGivesUp holds what only encoding/json judges.
func TestHandGivesUp(t *testing.T) {
	data, err := Encode(snapshot(h100(0)))
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for name, change := range map[string][2]string{
		"twice":            {`"index":0`, `"index":0,"index":0`},
		"another order":    {`"index":0,"pci":"00000000:1B:00.0"`, `"pci":"00000000:1B:00.0","index":0`},
		"unknown":          {`"index":0`, `"index":0,"cracked":true`},
		"another case":     {`"index":0`, `"Index":0`},
		"space":            {`"index":0`, `"index": 0`},
		"leading zero":     {`"gpu_c":54`, `"gpu_c":054`},
		"minus zero":       {`"gpu_c":54`, `"gpu_c":-0`},
		"negative counter": {`"replays":0`, `"replays":-1`},
		"fraction":         {`"gpu_c":54`, `"gpu_c":54.0`},
		"exponent":         {`"gpu_c":54`, `"gpu_c":54e0`},
		"too large":        {`"replays":0`, `"replays":18446744073709551616`},
		"null":             {`"gpu_c":54`, `"gpu_c":null`},
		"escape":           {`"source":"nvml"`, `"source":"nvm\u006c"`},
		"not ASCII":        {`"source":"nvml"`, `"source":"nvmł"`},
		"unknown reason":   {`"gpu_c":54`, `"gpu_c":{"unknown":"fine"}`},
		"more of a reason": {`"gpu_c":54`, `"gpu_c":{"unknown":"lost","x":1}`},
		"reason twice":     {`"samples":60`, `"samples":60,"reasons":{"0x0000000000000040":1,"0x0000000000000040":2}`},
		"mask in decimal":  {`"0x0000000000000000"`, `"64"`},
		"no time":          {`"taken_at":"2026-08-22T12:00:00Z"`, `"taken_at":"noon"`},
		"more after it":    {`"period_ms":1000,`, `"period_ms":1000}`},
		"no end":           {`"gpu_c":54`, `"gpu_c":54,`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, change[0], change[1], 1)
			if bad == good {
				t.Fatalf("the snapshot does not hold %s", change[0])
			}
			if _, ok := decodeByHand([]byte(bad)); ok {
				t.Error("decoded by hand")
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	data, err := Encode(snapshot(h100(0), h100(1), h100(2), h100(3), h100(4), h100(5), h100(6), h100(7)))
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func() (Snapshot, error){
		"hand":          func() (Snapshot, error) { return Decode(data) },
		"encoding-json": func() (s Snapshot, err error) { return s, strict(data, &s) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
