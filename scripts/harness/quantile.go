package harness

import (
	"slices"
	"time"
)

// Quantile is the smallest value that p percent of values do not exceed; it
// sorts them. 0 of none.
func Quantile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, (len(values)*p+99)/100-1)]
}
