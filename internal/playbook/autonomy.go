package playbook

import "fmt"

// String returns the level's word: observe, suggest or auto.
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

// ParseAutonomy parses a level's word. Any other word is an error, so that no
// unknown level is used by accident.
func ParseAutonomy(word string) (Autonomy, error) {
	switch word {
	case "observe":
		return Observe, nil
	case "suggest":
		return Suggest, nil
	case "auto":
		return Auto, nil
	default:
		return Observe, fmt.Errorf("unknown autonomy level %q: want observe, suggest or auto", word)
	}
}

// MarshalText returns the level's word, for JSON and YAML.
func (a Autonomy) MarshalText() ([]byte, error) {
	if a < Observe || a > Auto {
		return nil, fmt.Errorf("invalid autonomy level %d", int(a))
	}
	return []byte(a.String()), nil
}

// UnmarshalText parses the level's word, for JSON and YAML.
func (a *Autonomy) UnmarshalText(text []byte) error {
	level, err := ParseAutonomy(string(text))
	if err != nil {
		return err
	}
	*a = level
	return nil
}
