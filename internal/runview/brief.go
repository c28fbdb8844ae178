package runview

import "strings"

// briefID is the length of a beginning of an ID that holds its time, in milliseconds.
const briefID = len("r-01JDXYZ000")

// BriefRuns returns what shortens the ID of a run as long as it means one of these.
func BriefRuns(ids []string) func(string) string {
	return func(id string) string {
		for n := briefID; n < len(id); n++ {
			same := 0
			for _, other := range ids {
				if strings.HasPrefix(other, id[:n]) {
					same++
				}
			}
			if same < 2 {
				return id[:n]
			}
		}
		return id
	}
}
