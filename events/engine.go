package events

// EngineStarted is the first event of a writer; only after it are the open
// calls of the former one closed.
type EngineStarted struct {
	Incarnation Incarnation `json:"incarnation"`
	Version     string      `json:"version"`
	// After is the last sequence that the writer found.
	After Seq `json:"after"`
}

// CatalogLoaded puts a catalog in force. The envelope's catalog is still the
// former one; the whole canonical catalog is the blob of the same digest.
type CatalogLoaded struct {
	Digest Digest `json:"digest"`
	Size   int64  `json:"size"`
	// ApprovedBy is the person who approved a catalog that widens; empty where
	// it only narrows.
	ApprovedBy PersonID `json:"approved_by,omitzero"`
	Widens     bool     `json:"widens,omitzero"`
}

// PhaseChanged is a person's decision on the phase; the lower of it and the
// catalog's is in force.
type PhaseChanged struct {
	Phase int `json:"phase"`
}

// ClockJumped says that the wall clock and elapsed time disagree and that
// engine time goes on from From; expiry waits until somebody accepts.
type ClockJumped struct {
	From Instant `json:"from"`
	Wall Instant `json:"wall"`
	// Accepted says that a person accepted the wall clock again.
	Accepted bool `json:"accepted,omitzero"`
}

// AlertRaised tells people about something; Of names what it is about.
type AlertRaised struct {
	Alert  string `json:"alert"`
	Of     string `json:"of,omitzero"`
	Reason string `json:"reason"`
}

// AlertDelivered says that an alert reached a destination of the catalog, or was given up.
type AlertDelivered struct {
	Alert EventID `json:"alert"`
	To    string  `json:"to"`
	// Part is 0 for the first message about the alert, 1 for the count of its repeats.
	Part int `json:"part,omitzero"`
	// Failed is why the message was given up; empty where it was delivered.
	Failed string `json:"failed,omitzero"`
}

// JobRan says that a job of the engine ran.
type JobRan struct {
	Job      string `json:"job"`
	Duration Micros `json:"duration_us"`
	Error    string `json:"error,omitzero"`
}

// JobMissed says that a job was due while the engine did not run.
type JobMissed struct {
	Job string  `json:"job"`
	Due Instant `json:"due"`
}

// IntakeRefused counts what the intake refused without the loop, per agent,
// reason and second.
type IntakeRefused struct {
	Reason string  `json:"reason"`
	Count  int64   `json:"count"`
	Second Instant `json:"second"`
}

// AccessRefused says that somebody reached for what is not theirs: counted per
// client and second.
type AccessRefused struct {
	Account string `json:"account"`
	Client  string `json:"client"`
	Action  string `json:"action"`
	// Subject is the first subject that was refused in that second.
	Subject string `json:"subject"`
	Count   int64  `json:"count"`
}

// SubjectErased says that the key of a person's sealed fields was destroyed.
type SubjectErased struct {
	KeyID string `json:"kid"`
}

// Kind is "engine.started".
func (EngineStarted) Kind() Kind { return KindEngineStarted }

// Kind is "catalog.loaded".
func (CatalogLoaded) Kind() Kind { return KindCatalogLoaded }

// Kind is "phase.changed".
func (PhaseChanged) Kind() Kind { return KindPhaseChanged }

// Kind is "clock.jumped".
func (ClockJumped) Kind() Kind { return KindClockJumped }

// Kind is "alert.raised".
func (AlertRaised) Kind() Kind { return KindAlertRaised }

// Kind is "alert.delivered".
func (AlertDelivered) Kind() Kind { return KindAlertDelivered }

// Kind is "job.ran".
func (JobRan) Kind() Kind { return KindJobRan }

// Kind is "job.missed".
func (JobMissed) Kind() Kind { return KindJobMissed }

// Kind is "intake.refused".
func (IntakeRefused) Kind() Kind { return KindIntakeRefused }

// Kind is "access.refused".
func (AccessRefused) Kind() Kind { return KindAccessRefused }

// Kind is "subject.erased".
func (SubjectErased) Kind() Kind { return KindSubjectErased }

func (EngineStarted) sealed()  {}
func (CatalogLoaded) sealed()  {}
func (PhaseChanged) sealed()   {}
func (ClockJumped) sealed()    {}
func (AlertRaised) sealed()    {}
func (AlertDelivered) sealed() {}
func (JobRan) sealed()         {}
func (JobMissed) sealed()      {}
func (IntakeRefused) sealed()  {}
func (AccessRefused) sealed()  {}
func (SubjectErased) sealed()  {}
