package projections

import (
	"encoding/binary"
	"fmt"
	"slices"

	"gatebook/events"
)

func (f *fold) callDecided(e events.CallDecided) error {
	if err := f.newCall(e.Call); err != nil {
		return err
	}
	row := f.decidedRow(e)
	if e.Step > 0 {
		if err := f.roundStep(e, &row); err != nil {
			return err
		}
	} else if row.Open() {
		return fmt.Errorf("%w: call %s is open outside a round", ErrFold, e.Call)
	}
	f.nameBlob(e.Arguments.Blob)
	f.put(keyOf(viewCall, string(e.Call)), seqValue(f.rec.Seq))
	f.put(withSeq(listKey(viewCallAgent, string(f.rec.Agent)), f.rec.Seq), []byte{})
	if e.Verdict == events.Allow {
		if err := f.runAsset(row.Asset); err != nil {
			return err
		}
		f.put(seqKey(viewCallOpen, f.rec.Seq), seqValue(f.rec.Seq))
	}
	f.agent.LastActivity = f.rec.Time
	f.index(row)
	if err := f.countNew(row); err != nil {
		return err
	}
	f.setCall(row)
	if row.Layer == events.LayerAsset {
		return f.alert(AlertRow{Kind: AlertAssetBlocked, Of: string(row.Asset), Name: row.Tool.String(), Reason: row.Reason})
	}
	return nil
}

// newCall is the law that a call is about an agent and decided once.
func (f *fold) newCall(id events.CallID) error {
	if err := f.aboutAgent(); err != nil {
		return err
	}
	free, err := isFree(f.tx, keyOf(viewCall, string(id)))
	if err != nil {
		return err
	}
	if !free || id == "" {
		return fmt.Errorf("%w: call %s cannot be decided again", ErrFold, events.Quote(string(id)))
	}
	return nil
}

func (f *fold) decidedRow(e events.CallDecided) AuditRow {
	row := AuditRow{
		Call: e.Call, Round: e.Round, Conversation: e.Conversation, Step: e.Step,
		Agent: f.rec.Agent, Role: e.Facts.Role, Principal: e.Principal, Profile: e.Profile,
		Tool: e.Tool, ToolKnown: e.Definition != "" || e.Verdict == events.Allow || e.Verdict == events.Stage, Key: e.Key, MAC: e.Arguments.MAC, ArgsPreview: preview(e.Arguments.Text), ArgsSize: e.Arguments.Size, Paths: e.Arguments.Paths,
		Verdict: e.Verdict, Layer: e.Layer, Rule: e.Rule, Reason: e.Reason, Tier: e.Tier,
		Decided: f.rec.Time, Seq: f.rec.Seq, Catalog: f.rec.Catalog, Asset: events.AssetID(e.Asset),
	}
	if status, final := e.Verdict.Final(); final {
		row.Status, row.Completed = status, f.rec.Time
	}
	return row
}

// roundStep counts the call as the next step of its round.
func (f *fold) roundStep(e events.CallDecided, row *AuditRow) error {
	round, err := f.ownRound(e.Round)
	if err != nil {
		return err
	}
	if e.Step != round.Steps+1 || e.Conversation != round.Conversation {
		return fmt.Errorf("%w: call %s is step %d of round %s, which has %d steps in conversation %s", ErrFold,
			e.Call, e.Step, e.Round, round.Steps, round.Conversation)
	}
	row.Model, row.Channel = round.Model, round.Channel
	before := round
	round.Steps++
	round.LastCall = f.rec.Time
	if e.Verdict == events.Allow {
		round.use(e.Tool, 1)
	}
	if e.Verdict == events.Stage {
		round.Staged++
	}
	if row.Open() {
		round.OpenCalls++
	} else if err := f.tally(*row); err != nil {
		return err
	}
	f.moveDue(before, round)
	f.put(withSeq(listKey(viewCallRound, string(e.Round)), f.rec.Seq), []byte{})
	if err := f.indexKey(e); err != nil {
		return err
	}
	f.setRound(round)
	return nil
}

// indexKey keeps the first call of a round under a key: a later one under it is
// a refusal, and never what a retry is to find.
func (f *fold) indexKey(e events.CallDecided) error {
	if e.Key == "" {
		return nil
	}
	key := callKeyKey(e.Round, e.Key)
	free, err := isFreeIn(f.tx, e.Round, key)
	if err == nil && free {
		f.put(key, seqValue(f.rec.Seq))
	}
	return err
}

// openCall finds an open call of the event's agent and of the round.
func (f *fold) openCall(id events.CallID, round events.RoundID) (AuditRow, error) {
	row, ok, err := CallByID(f.tx, id)
	if err != nil {
		return row, err
	}
	if !ok || row.Agent != f.rec.Agent || row.Round != round {
		return row, fmt.Errorf("%w: %s has no call %s in round %s", ErrFold, events.Quote(string(f.rec.Agent)),
			events.Quote(string(id)), events.Quote(string(round)))
	}
	if !row.Open() {
		return row, fmt.Errorf("%w: call %s has ended as %s", ErrFold, id, row.Status)
	}
	return row, nil
}

func (f *fold) callReleased(e events.CallReleased) error {
	row, err := f.openCall(e.Call, e.Round)
	if err != nil {
		return err
	}
	if row.Verdict != events.Stage || row.Released != 0 {
		return fmt.Errorf("%w: call %s is not waiting for its release", ErrFold, e.Call)
	}
	if err := f.reviewIs(row, events.ReviewStateApproved); err != nil {
		return err
	}
	round, err := f.ownRound(row.Round)
	if err != nil {
		return err
	}
	round.Staged--
	round.use(row.Tool, 1)
	f.setRound(round)
	if e.Tier != events.ReadOnly { // a person may have said meanwhile that it only reads
		if err := f.runAsset(row.Asset); err != nil {
			return err
		}
	}
	was := row
	row.Released, row.ReleasedSeq = f.rec.Time, f.rec.Seq
	f.put(seqKey(viewCallOpen, f.rec.Seq), seqValue(row.Seq))
	f.drop(seqKey(viewCallStaged, row.Seq))
	return f.changeCall(was, row)
}

func (f *fold) callCompleted(e events.CallCompleted) error {
	row, err := f.openCall(e.Call, e.Round)
	if err != nil {
		return err
	}
	if !finalStatus(e.Status) {
		return fmt.Errorf("%w: call %s cannot end as %s", ErrFold, e.Call, events.Quote(string(e.Status)))
	}
	if err := f.reviewEnds(row); err != nil {
		return err
	}
	was := row
	row.Status, row.Completed, row.CompletedSeq = e.Status, f.rec.Time, f.rec.Seq
	row.Layer, row.Rule, row.Reason, row.Error = e.Layer, e.Rule, e.Reason, e.Error
	row.Duration, row.Executor, row.Result = e.Duration, e.Executor, e.Result
	round, err := f.ownRound(row.Round)
	if err != nil {
		return err
	}
	round.OpenCalls--
	if row.Verdict == events.Stage && row.Released == 0 {
		round.Staged--
		f.drop(seqKey(viewCallStaged, row.Seq))
	} else if e.Status == events.StatusDenied {
		round.use(row.Tool, -1) // the tool found that it may not, and did nothing
	}
	f.setRound(round)
	if err := f.tally(row); err != nil {
		return err
	}
	f.nameBlob(e.Result.Blob)
	f.drop(seqKey(viewCallOpen, row.Opened()))
	f.agent.LastActivity = f.rec.Time
	return f.changeCall(was, row)
}

func finalStatus(s events.Status) bool {
	switch s {
	case events.StatusOK, events.StatusError, events.StatusDenied, events.StatusRejected,
		events.StatusNotFound, events.StatusCancelled, events.StatusExpired, events.StatusUnknown:
		return true
	}
	return false
}

// changeCall sets what became of a call.
func (f *fold) changeCall(was, row AuditRow) error {
	f.reindex(was, row)
	if !row.Open() {
		if err := f.count(row); err != nil {
			return err
		}
	}
	f.setCall(row)
	return nil
}

func (f *fold) setCall(row AuditRow) {
	f.set(seqKey(viewAudit, row.Seq), storeCall(row))
}

// countNew gives a new call its place among what is counted: one that has ended in the
// roll-up, one that has not among those that a count looks at one by one.
func (f *fold) countNew(row AuditRow) error {
	if _, err := f.nameModel(row.Agent, row.Model.Name); err != nil {
		return err
	}
	if row.Decided < f.state.LastDecided {
		f.state.BackTo = f.state.LastDecided
	}
	f.state.LastDecided = max(f.state.LastDecided, row.Decided)
	if !row.Open() {
		return f.count(row)
	}
	if row.Verdict == events.Stage {
		f.put(seqKey(viewCallStaged, row.Seq), []byte{})
	}
	return nil
}

// count counts a call that has ended, in the hour of its decision.
func (f *fold) count(row AuditRow) error {
	n, err := f.countedAs(row)
	if err != nil {
		return err
	}
	f.setTime(row, n)
	if err := f.addHour(hourKey(levelWhat, row.Decided, n.agent, n.what), row.Duration); err != nil {
		return err
	}
	return f.addHour(hourKey(levelAll, row.Decided, n.agent, n.all), row.Duration)
}

// countNumbers are those of what a call is counted under.
type countNumbers struct{ agent, what, all uint32 }

func (f *fold) countedAs(row AuditRow) (n countNumbers, err error) {
	if n.agent, err = f.word(wordAgent, []byte(row.Agent)); err != nil {
		return n, err
	}
	c, err := combinationFor(f.tx, row, f.models)
	if err != nil {
		return n, err
	}
	if n.all, err = f.word(wordCombination, c.bytes()); err != nil {
		return n, err
	}
	n.what, err = f.word(wordCombination, c.what().bytes())
	return n, err
}

func (f *fold) addHour(key []byte, took events.Micros) error {
	row, err := f.loadSum(key)
	if err != nil {
		return err
	}
	row.Calls, row.Duration = row.Calls+1, row.Duration+took
	f.set(key, row)
	return nil
}

// sum is a row of the roll-up: level, hour, agent, combination -> calls and the time that
// those of them took that have ended.
type sum struct {
	Calls    int64
	Duration events.Micros
}

// bytes is s in a row: two numbers, because there is one for each call twice.
func (s sum) bytes() []byte {
	return binary.AppendVarint(binary.AppendVarint(make([]byte, 0, 12), s.Calls), int64(s.Duration))
}

func sumOf(value []byte) (sum, error) {
	calls, n := binary.Varint(value)
	if n <= 0 {
		return sum{}, fmt.Errorf("%w: a row of the roll-up does not decode", ErrStore)
	}
	took, m := binary.Varint(value[n:])
	if m <= 0 || n+m != len(value) {
		return sum{}, fmt.Errorf("%w: a row of the roll-up does not decode", ErrStore)
	}
	return sum{calls, events.Micros(took)}, nil
}

// loadSum reads a row of the roll-up, zero where there is none.
func (f *fold) loadSum(key []byte) (sum, error) {
	if f.memo != nil {
		if s, ok := f.memo.row(key).(sum); ok {
			return s, nil
		}
	}
	free, err := isFreeHour(f.tx, key)
	if err != nil || free {
		return sum{}, err
	}
	value, err := f.tx.Get(key)
	if err != nil || value == nil {
		return sum{}, err
	}
	return sumOf(value)
}

// setTime keeps the call in the order of time: what an edge of a range has to know.
func (f *fold) setTime(row AuditRow, n countNumbers) {
	value := binary.AppendUvarint(make([]byte, 0, 16), uint64(n.agent))
	value = binary.AppendUvarint(value, uint64(n.all))
	value = binary.AppendUvarint(value, uint64(n.what))
	value = binary.AppendVarint(value, int64(row.Duration))
	f.put(withSeq(timeKey(viewTime, row.Decided), row.Seq), value)
}

// readTime reads what setTime wrote.
func readTime(value []byte) (n countNumbers, took events.Micros, err error) {
	for _, into := range []*uint32{&n.agent, &n.all, &n.what} {
		no, used := binary.Uvarint(value)
		if used <= 0 {
			return n, 0, fmt.Errorf("%w: a call in the order of time does not decode", ErrStore)
		}
		*into, value = uint32(no), value[used:]
	}
	d, used := binary.Varint(value)
	if used <= 0 {
		return n, 0, fmt.Errorf("%w: a call in the order of time does not decode", ErrStore)
	}
	return n, events.Micros(d), nil
}

// combinationFor is what a call is counted under, beside its agent and its hour. more
// are models that have a place beside those that the views know.
func combinationFor(v Reader, r AuditRow, more []string) (c combination, err error) {
	tool, rule, model := toolName(r.Tool), r.Rule, r.Model.Name
	if !r.ToolKnown {
		tool = Other
	}
	if r.Layer == events.LayerDecode && rule != "" {
		rule = Other // it is the field that was wrong, as the caller wrote it
	}
	if model != "" {
		names, _, err := loadRow[modelNames](v, keyOf(viewModels, string(r.Agent)))
		if err != nil {
			return c, err
		}
		if !slices.Contains(more, model) && !slices.Contains(names.Names, model) {
			model = Other
		}
	}
	return combination{
		tool, string(r.State()), string(r.Verdict), string(r.Layer), rule, r.Principal.ID, string(r.Principal.Kind),
		r.Role, string(r.Channel), r.Profile, model, string(r.Tier),
	}, nil
}

// modelNames are the models that an agent's calls and usage are counted by.
type modelNames struct {
	_     struct{} `cbor:",toarray"`
	Names []string
}

// nameModel gives a model a place among those that are counted for the agent, where
// there is one, and says under which name it counts. A place is for ever, so what has
// none once has none later.
func (f *fold) nameModel(agent events.AgentID, model string) (counted string, err error) {
	if model == "" {
		return "", nil
	}
	key := keyOf(viewModels, string(agent))
	m, _, err := loadRow[modelNames](f.tx, key)
	switch {
	case err != nil || slices.Contains(m.Names, model):
		return model, err
	case len(m.Names) >= MaxModels:
		return Other, nil
	}
	f.models = append(slices.Clone(m.Names), model)
	f.set(key, modelNames{Names: f.models})
	return model, nil
}

// word gives the number of a word, a new one where it has none.
func (f *fold) word(kind byte, word []byte) (uint32, error) {
	key := append(append(make([]byte, 0, 2+len(word)), viewWord, kind), word...)
	no, found, err := loadRow[uint32](f.tx, key)
	if err != nil || found {
		return no, err
	}
	f.state.Words++
	no = f.state.Words
	f.put(wordKey(no), append([]byte{kind}, word...))
	f.set(key, no)
	return no, nil
}
