package playbook

import (
	"fmt"
	"strings"
)

// Quantity formats a measured number with its unit, as a playbook names it. A
// unit that is or begins with the word ratio is shown in percent: 0.9683 with
// "ratio of requests" is "96.83% of requests".
func Quantity(v float64, unit string) string {
	first, rest, _ := strings.Cut(unit, " ")
	switch {
	case first == "ratio" && rest != "":
		return fmt.Sprintf("%.4g%% %s", 100*v, rest)
	case first == "ratio":
		return fmt.Sprintf("%.4g%%", 100*v)
	case unit != "":
		return fmt.Sprintf("%.4g %s", v, unit)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
