package playbook

import (
	"encoding/json"
	"testing"
)

// The journal and the configuration hold the words; an unknown one, or none at
// all, never becomes a level that acts.
func TestAutonomyText(t *testing.T) {
	for word, want := range map[string]Autonomy{"observe": Observe, "suggest": Suggest, "auto": Auto} {
		var s Service
		if err := json.Unmarshal([]byte(`{"autonomy":"`+word+`"}`), &s); err != nil || s.Autonomy != want {
			t.Errorf("%s is %v, %v", word, s.Autonomy, err)
		}
		if text, err := want.MarshalText(); err != nil || string(text) != word {
			t.Errorf("%v is written %s, %v", want, text, err)
		}
	}
	for _, bad := range []string{`"Auto"`, `""`, `"on"`, `2`} {
		a := Observe
		if err := json.Unmarshal([]byte(bad), &a); err == nil || a != Observe {
			t.Errorf("%s is %v, %v", bad, a, err)
		}
	}
	var none Service
	if err := json.Unmarshal([]byte(`{}`), &none); err != nil || none.Autonomy != Observe {
		t.Errorf("no word is %v, %v", none.Autonomy, err)
	}
	if _, err := Autonomy(7).MarshalText(); err == nil {
		t.Error("a level that does not exist was written")
	}
}
