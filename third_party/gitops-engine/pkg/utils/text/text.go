// Package text picks strings.
package text

// FirstNonEmpty returns the first argument that is not empty.
func FirstNonEmpty(args ...string) string {
	for _, value := range args {
		if value != "" {
			return value
		}
	}
	return ""
}
