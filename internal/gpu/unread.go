package gpu

import "reflect"

// losable is what every reading can become, whatever its type.
type losable interface{ lose(Absence) }

func (r *Reading[T]) lose(why Absence) { *r = Unknown[T](why) }

// Unread is the GPU with every reading replaced by why there is none. What it
// is (UUID, index, name), its links and MIG instances, its events and its
// history stay.
func (g GPU) Unread(why Absence) GPU {
	links := make([]NVLink, len(g.NVLinks))
	copy(links, g.NVLinks)
	g.NVLinks = links
	history, baseline := g.Minutes, g.Baseline
	g.Minutes, g.Baseline = nil, Baseline{}
	unread(reflect.ValueOf(&g).Elem(), why)
	g.Minutes, g.Baseline = history, baseline
	return g
}

// unread loses every reading below v, which is addressable.
func unread(v reflect.Value, why Absence) {
	if r, ok := v.Addr().Interface().(losable); ok {
		r.lose(why)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				unread(v.Field(i), why)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			unread(v.Index(i), why)
		}
	default: // no reading in it
	}
}
