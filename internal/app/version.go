package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/inference-responder/responder/internal/runview"
)

// BuildInfo is what this binary was built from.
type BuildInfo struct {
	Version  string `json:"version"`            // of the module; (devel) when built from a working tree without one
	Revision string `json:"revision,omitempty"` // commit
	Modified bool   `json:"modified,omitempty"` // the working tree had changes
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuildInfo reads what the go command stamped into the binary.
func ReadBuildInfo() BuildInfo {
	b := BuildInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// commit reports which commit it was built from, and whether of nothing else.
func (b BuildInfo) commit() string {
	if b.Revision == "" {
		return "commit not recorded (built with -buildvcs=false, or from no clone)"
	}
	text := "commit " + runview.Short(b.Revision, 12)
	if b.Time != "" {
		text += " of " + b.Time
	}
	if b.Modified {
		text += " with changes that are not committed"
	}
	return text
}

// Write prints it in one line.
func (b BuildInfo) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "responder %s, %s, %s %s\n", b.Version, b.commit(), b.Go, b.Platform)
	return err
}
