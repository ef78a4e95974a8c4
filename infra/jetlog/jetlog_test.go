package jetlog

import (
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

func TestLog(t *testing.T) {
	eventstest.TestLog(t, func(t *testing.T) func() events.Log {
		nc := connect(t, startServer(t, nil))
		openLog(t, nc, making())
		return func() events.Log { return openLog(t, nc, Config{}) }
	})
}
