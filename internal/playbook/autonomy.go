package playbook

import "fmt"

// String gives the level's word: observe, suggest or auto.
func (a Autonomy) String() string {
	switch a {
	case Observe:
		return "observe"
	case Suggest:
		return "suggest"
	case Auto:
		return "auto"
	default:
		return fmt.Sprintf("Autonomy(%d)", int(a))
	}
}

// ParseAutonomy reads a level's word. Anything else is an error: an unknown
// level must not become a level by accident.
func ParseAutonomy(word string) (Autonomy, error) {
	switch word {
	case "observe":
		return Observe, nil
	case "suggest":
		return Suggest, nil
	case "auto":
		return Auto, nil
	default:
		return Observe, fmt.Errorf("unknown autonomy level %q: allowed are observe, suggest, auto", word)
	}
}

// MarshalText writes the level's word, for JSON and YAML.
func (a Autonomy) MarshalText() ([]byte, error) {
	if a < Observe || a > Auto {
		return nil, fmt.Errorf("autonomy level %d does not exist", int(a))
	}
	return []byte(a.String()), nil
}

// UnmarshalText reads the level's word, for JSON and YAML.
func (a *Autonomy) UnmarshalText(text []byte) error {
	level, err := ParseAutonomy(string(text))
	if err != nil {
		return err
	}
	*a = level
	return nil
}
