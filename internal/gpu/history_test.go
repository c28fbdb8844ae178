package gpu

import (
	"slices"
	"testing"
	"time"
)

// TestFewer: of too many events the oldest of the kind goes that came most often.
func TestFewer(t *testing.T) {
	for name, c := range map[string]struct {
		codes, want []uint64 // a second apart
		dropped     time.Duration
	}{
		"not too many":          {[]uint64{79, 31, 31}, []uint64{79, 31, 31}, -1},
		"again and again":       {[]uint64{79, 31, 31, 31, 31, 31}, []uint64{79, 31, 31, 31}, 2 * time.Second},
		"what counts, too":      {[]uint64{94, 79, 94, 94, 94}, []uint64{79, 94, 94, 94}, 0},
		"two loops":             {[]uint64{48, 31, 43, 31, 43, 31}, []uint64{48, 31, 43, 31}, 2 * time.Second},
		"as often":              {[]uint64{94, 31, 94, 31, 79}, []uint64{94, 94, 31, 79}, time.Second},
		"each once":             {[]uint64{48, 31, 79, 119, 95}, []uint64{48, 79, 119, 95}, time.Second},
		"each once, and counts": {[]uint64{48, 62, 79, 119, 95}, []uint64{62, 79, 119, 95}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var events []Event
			for i, code := range c.codes {
				events = append(events, Event{At: noon.Add(time.Duration(i) * time.Second), Type: EventXID, Data: code})
			}
			kept, dropped := DropEvents(events, 4)
			var got []uint64
			for _, e := range kept {
				got = append(got, e.Data)
			}
			if !slices.Equal(got, c.want) || c.dropped < 0 != dropped.IsZero() || c.dropped >= 0 && !dropped.Equal(noon.Add(c.dropped)) {
				t.Errorf("kept %v, dropped till %s; want %v, %s", got, dropped, c.want, c.dropped)
			}
		})
	}
	changes := []Event{{At: noon, Type: EventXID, Data: 79}, {At: noon, Type: 0x10, Data: 1}, {At: noon, Type: 0x10, Data: 2}}
	if kept, _ := DropEvents(changes, 2); kept[0].Data != 79 {
		t.Errorf("changes of clocks, each with other data, push an XID out: %+v", kept)
	}
}
