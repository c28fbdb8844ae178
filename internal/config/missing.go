package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// MissingFiles names every file that a start would need and that is not there,
// so that nobody has to start once for each. What is read when it is needed, as
// Git's and Argo CD's credentials and golden prompts are, may come later.
func (c Config) MissingFiles() error {
	unused := []string{"gitops."}
	if !c.Silence.Enabled {
		unused = append(unused, "silence.")
	}
	if !c.GPU.Agents.Enabled {
		unused = append(unused, "gpu.agents.")
	}
	var problems yamldoc.Problems
	eachText(reflect.ValueOf(c), "", func(path, name string, v reflect.Value) {
		value := v.String()
		if value == "" || !namesPath(name) || name == "dir" || name == "archive" || path == "journal.key_file" {
			return
		}
		if strings.Contains(path, "].probe.") && name != "ca_file" {
			return
		}
		for _, block := range unused {
			if strings.HasPrefix(path, block) {
				return
			}
		}
		if _, err := os.Stat(value); errors.Is(err, fs.ErrNotExist) {
			p := c.Problem(path, fmt.Errorf("%s: no such file or directory", value))
			p.Hint = "a path is relative to the configuration's own directory"
			problems = append(problems, p)
		}
	})
	return problems.Err()
}
