package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/runview"
)

func TestWhatIsKeptIsNotCut(t *testing.T) {
	long := strings.Repeat("inference-", 20)
	for columns, whole := range map[string]bool{"": true, "60": false} {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		tab := runview.Table{Columns: []runview.Column{{Head: "RUN"}, {Head: "WHY", Flex: true}}}
		tab.Add("r-01JDXYZ", long)
		if err := tab.Write(NewWindow(f, func(string) string { return columns }), false); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(b), long); got != whole {
			t.Errorf("COLUMNS=%q: written whole is %t, want %t:\n%s", columns, got, whole, b)
		}
	}
}
