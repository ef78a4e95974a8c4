package projections

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatebook/events"
)

// Field is what calls are counted by.
type Field string

// The fields. Hour and day are of the decision, in UTC.
const (
	ByAgent     Field = "agent"
	ByHour      Field = "hour"
	ByDay       Field = "day"
	ByTool      Field = "tool"
	ByStatus    Field = "status"
	ByVerdict   Field = "verdict"
	ByLayer     Field = "layer"
	ByRule      Field = "rule"
	ByPrincipal Field = "principal"
	ByKind      Field = "kind"
	ByRole      Field = "role"
	ByChannel   Field = "channel"
	ByProfile   Field = "profile"
	ByModel     Field = "model"
	ByTier      Field = "tier"
)

// combined are the fields of a combination, in the order of its bytes. The others
// are in the keys of its rows.
var combined = [...]Field{
	ByTool, ByStatus, ByVerdict, ByLayer, ByRule, ByPrincipal, ByKind, ByRole, ByChannel, ByProfile, ByModel, ByTier,
}

// Fields are all fields; the caller owns the slice.
func Fields() []Field { return append([]Field{ByAgent, ByHour, ByDay}, combined[:]...) }

const (
	// Other counts what callers name as they like: tools that are not known, the
	// rules of calls that could not be read, models beyond [MaxModels], and tools of a
	// receipt beyond [MaxReceiptTools]. So there are no more rows than what the catalog
	// knows gives. No tool is written so.
	Other = "other"
	// MaxModels bounds the names of models that are counted for an agent, and in a
	// receipt: whoever begins a round, or reports what a message used, claims one.
	MaxModels = 20
	// MaxBy is by how many fields at once calls are counted.
	MaxBy = 5
	// MaxGroups is the most groups that an answer has.
	MaxGroups = 1000
)

// combination is what a call is counted under, beside its agent and its hour.
type combination [len(combined)]string

func (c combination) bytes() []byte {
	b := make([]byte, 0, 160)
	for _, s := range c {
		b = appendPart(b, s)
	}
	return b
}

func combinationOf(b []byte) (c combination, err error) {
	ok := true
	for i := range c {
		if c[i], b, ok = cutPart(b); !ok {
			return c, fmt.Errorf("%w: a combination does not decode", ErrStore)
		}
	}
	return c, nil
}

// hour is the unit of the roll-up.
const hour = events.Instant(time.Hour / time.Microsecond)

// hourOf is when the hour of a time began.
func hourOf(at events.Instant) events.Instant {
	return at - (at%hour+hour)%hour
}

// timeKey is prefix followed by a time; keys have the order of the times.
func timeKey(view byte, at events.Instant) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 24), view), uint64(at)^1<<63)
}

func timeOf(key []byte) (events.Instant, bool) {
	if len(key) < 9 {
		return 0, false
	}
	return events.Instant(binary.BigEndian.Uint64(key[1:]) ^ 1<<63), true
}

// Levels of the roll-up: what was done, which is few rows an hour, and all that calls
// are counted by.
const (
	levelWhat byte = 1
	levelAll  byte = 2
)

// what leaves out who was talking and where.
func (c combination) what() combination {
	for i, f := range combined {
		if whose(f) {
			c[i] = ""
		}
	}
	return c
}

func whose(f Field) bool {
	return f == ByPrincipal || f == ByKind || f == ByChannel || f == ByProfile || f == ByModel
}

// level is the one with the fewest rows that has what the filter needs.
func (f TotalsFilter) level() byte {
	if f.Principal != "" || f.Channel != "" || f.Profile != "" || slices.ContainsFunc(f.By, whose) {
		return levelAll
	}
	return levelWhat
}

// hourPrefix is how many bytes of an hourKey say its level and its hour.
const hourPrefix = 10

// hourKey is where the calls of an agent and a combination in the hour of a time are
// counted.
func hourKey(level byte, at events.Instant, agent, combination uint32) []byte {
	key := append(make([]byte, 0, 18), viewHour, level)
	key = binary.BigEndian.AppendUint64(key, uint64(hourOf(at))^1<<63)
	key = binary.BigEndian.AppendUint32(key, agent)
	return binary.BigEndian.AppendUint32(key, combination)
}

// TotalsFilter says which calls to count, and by what.
type TotalsFilter struct {
	CallFilter
	By    []Field
	Limit int // groups; 0 and what is above [MaxGroups] ask for that
}

// Total is how many calls a group has, and how long those that have ended took.
type Total struct {
	Group    []string // one for each field of By
	Calls    int64
	Duration events.Micros
}

// TotalsPage is a count of calls.
type TotalsPage struct {
	All  Total
	Rows []Total // the greatest first
	// Rest is what the groups have that are not in Rows, and Left how many those are.
	Rest Total
	Left int
	AsOf events.Seq // the checkpoint that the count is true at
}

// ErrField marks a field that nothing is counted by, one that is named twice, and
// too many.
var ErrField = errors.New("calls are not counted so")

// CheckFields fails with [ErrField].
func CheckFields(by []Field) error {
	if len(by) > MaxBy {
		return fmt.Errorf("%w: by %d fields, at most %d", ErrField, len(by), MaxBy)
	}
	for i, f := range by {
		if !slices.Contains(Fields(), f) {
			return fmt.Errorf("%w: by %s, want some of %s", ErrField, events.Quote(string(f)), FieldList())
		}
		if slices.Contains(by[:i], f) {
			return fmt.Errorf("%w: by %s twice", ErrField, f)
		}
	}
	return nil
}

// FieldList names all fields for people.
func FieldList() string {
	var names []string
	for _, f := range Fields() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// Totals counts the calls that were decided in a range of time: those that have ended
// from the roll-up of the whole hours in it, and at either edge from the smaller part of
// the hour that the edge cuts; those that have not, which are few, one by one.
//
// A tool that is not known counts as [Other], whatever it was called, and is found
// by that name.
func Totals(r Reader, f TotalsFilter) (TotalsPage, error) {
	state, err := LoadState(r)
	if err != nil {
		return TotalsPage{}, err
	}
	page := TotalsPage{AsOf: state.Seq}
	if err := CheckFields(f.By); err != nil {
		return page, err
	}
	c := counter{
		r: r, f: f, seen: map[countKey]*Total{}, groups: map[string]*Total{}, only: anyAgent,
		agents: map[uint32]events.AgentID{}, words: map[uint32]combination{},
		byTime: slices.Contains(f.By, ByHour) || slices.Contains(f.By, ByDay),
	}
	if f.Agent != "" {
		no, found, err := loadRow[uint32](r, append([]byte{viewWord, wordAgent}, f.Agent...))
		if err != nil {
			return page, err
		}
		c.only, c.none = no, !found
	}
	if err := errors.Join(c.count(), c.open()); err != nil {
		return page, err
	}
	page.fill(slices.Collect(maps.Values(c.groups)), f.Limit)
	return page, nil
}

// fill sorts the groups and leaves out what is too much.
func (p *TotalsPage) fill(groups []*Total, limit int) {
	slices.SortFunc(groups, func(a, b *Total) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), slices.Compare(a.Group, b.Group))
	})
	if limit <= 0 || limit > MaxGroups {
		limit = MaxGroups
	}
	for _, g := range groups {
		if g.Calls == 0 {
			continue // an edge took all of it away
		}
		p.All.add(g.Calls, g.Duration)
		if len(p.Rows) < limit {
			p.Rows = append(p.Rows, *g)
			continue
		}
		p.Left++
		p.Rest.add(g.Calls, g.Duration)
	}
}

func (t *Total) add(calls int64, took events.Micros) {
	t.Calls, t.Duration = t.Calls+calls, t.Duration+took
}

// anyAgent is no agent's number.
const anyAgent = 0

// counter is one query of totals.
type counter struct {
	r      Reader
	f      TotalsFilter
	only   uint32              // the agent's number, or anyAgent
	none   bool                // no call of the agent has ended
	byTime bool                // something is counted by time
	seen   map[countKey]*Total // nil where the filter leaves it out
	groups map[string]*Total
	agents map[uint32]events.AgentID
	words  map[uint32]combination
}

// countKey is what calls have in common that are of one group.
type countKey struct {
	agent, combination uint32
	hour               events.Instant // 0 where nothing is counted by time
}

func (c *counter) count() error {
	since, until := c.f.Since, c.f.Until
	if c.none || until != 0 && since >= until {
		return nil
	}
	if since != 0 && hourOf(since) != since {
		end := hourOf(since) + hour
		if until != 0 {
			end = min(end, until)
		}
		if err := c.part(since, end); err != nil || until != 0 && end == until {
			return err
		}
		since = end
	}
	if until != 0 && hourOf(until) != until {
		if err := c.part(hourOf(until), until); err != nil {
			return err
		}
		if until = hourOf(until); until <= since { // 0 too, which would be open
			return nil
		}
	}
	return c.hours(since, until)
}

// part counts [from, to), which is less than an hour and within one: its calls, or
// those of the hour less the others, whichever is the shorter time.
func (c *counter) part(from, to events.Instant) error {
	if to-from <= hour/2 {
		return c.calls(from, to, 1)
	}
	begin := hourOf(from)
	return errors.Join(c.hours(begin, begin+hour), c.calls(begin, from, -1), c.calls(to, begin+hour, -1))
}

// calls adds the calls decided in [from, to), or takes them away.
func (c *counter) calls(from, to events.Instant, sign int64) error {
	if from >= to {
		return nil
	}
	for row, err := range c.r.Scan(timeKey(viewTime, from), timeKey(viewTime, to)) {
		if err != nil {
			return err
		}
		at, _ := timeOf(row.Key)
		n, took, err := readTime(row.Value)
		if err != nil {
			return err
		}
		if err := c.add(at, n.agent, n.all, sign, took*events.Micros(sign)); err != nil {
			return err
		}
	}
	return nil
}

// hours adds the roll-up of the hours in [since, until); 0 is open.
func (c *counter) hours(since, until events.Instant) error {
	level := c.f.level()
	from, to := []byte{viewHour, level}, []byte{viewHour, level + 1}
	if since != 0 {
		from = hourKey(level, since, 0, 0)
	}
	if until != 0 {
		to = hourKey(level, until, 0, 0)
	}
	for from != nil && bytes.Compare(from, to) < 0 {
		var err error
		if from, err = c.run(from, to); err != nil {
			return err
		}
	}
	return nil
}

// run adds rows from a key on. It gives where to go on: behind the rows of other
// agents that stand between those of the one that is wanted; nil for nowhere.
func (c *counter) run(from, to []byte) ([]byte, error) {
	for row, err := range c.r.Scan(from, to) {
		if err != nil {
			return nil, err
		}
		if len(row.Key) != 18 {
			return nil, fmt.Errorf("%w: a key of the roll-up has %d bytes", ErrStore, len(row.Key))
		}
		at, _ := timeOf(row.Key[1:])
		agent, no := binary.BigEndian.Uint32(row.Key[10:]), binary.BigEndian.Uint32(row.Key[14:])
		if c.only != anyAgent && agent != c.only {
			if agent > c.only {
				at += hour
			}
			return hourKey(row.Key[1], at, c.only, 0), nil
		}
		s, err := sumOf(row.Value)
		if err != nil {
			return nil, err
		}
		if err := c.add(at, agent, no, s.Calls, s.Duration); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// add counts calls of a combination.
func (c *counter) add(at events.Instant, agent, no uint32, calls int64, took events.Micros) error {
	if c.only != anyAgent && agent != c.only {
		return nil
	}
	key := countKey{agent: agent, combination: no}
	if c.byTime {
		key.hour = hourOf(at)
	}
	group, known := c.seen[key]
	if !known {
		var err error
		if group, err = c.groupOf(key); err != nil {
			return err
		}
		c.seen[key] = group
	}
	if group != nil {
		group.add(calls, took)
	}
	return nil
}

// groupOf finds the group of a combination; nil where the filter leaves it out.
func (c *counter) groupOf(k countKey) (*Total, error) {
	agent, err := c.agent(k.agent)
	if err != nil || c.f.Observable != nil && !c.f.Observable(agent) {
		return nil, err
	}
	combination, err := c.combination(k.combination)
	if err != nil || !c.f.wantsCombination(combination) {
		return nil, err
	}
	return c.group(agent, combination, k.hour), nil
}

// group is the group of calls, a new one where there is none.
func (c *counter) group(agent events.AgentID, combination combination, at events.Instant) *Total {
	group, key := make([]string, len(c.f.By)), []byte(nil)
	for i, field := range c.f.By {
		switch field {
		case ByAgent:
			group[i] = string(agent)
		case ByHour:
			group[i] = at.Time().Format("2006-01-02T15:00Z")
		case ByDay:
			group[i] = at.Time().Format(time.DateOnly)
		default:
			group[i] = combination.of(field)
		}
		key = appendPart(key, group[i])
	}
	if c.groups[string(key)] == nil {
		c.groups[string(key)] = &Total{Group: group}
	}
	return c.groups[string(key)]
}

// open adds the calls that have not ended.
func (c *counter) open() error {
	wanted := AuditFilter{CallFilter: c.f.CallFilter}
	for row, err := range unended(c.r) {
		if err != nil {
			return err
		}
		if !wanted.wants(row) {
			continue
		}
		combination, err := combinationFor(c.r, row, nil)
		if err != nil {
			return err
		}
		c.group(row.Agent, combination, hourOf(row.Decided)).add(1, 0)
	}
	return nil
}

func (c *counter) agent(no uint32) (events.AgentID, error) {
	if id, known := c.agents[no]; known {
		return id, nil
	}
	word, err := wordAt(c.r, no, wordAgent)
	c.agents[no] = events.AgentID(word)
	return c.agents[no], err
}

func (c *counter) combination(no uint32) (combination, error) {
	if known, ok := c.words[no]; ok {
		return known, nil
	}
	word, err := wordAt(c.r, no, wordCombination)
	if err != nil {
		return combination{}, err
	}
	c.words[no], err = combinationOf(word)
	return c.words[no], err
}

func (c combination) of(f Field) string { return c[slices.Index(combined[:], f)] }

// wantsCombination is wants without agent and time.
func (f CallFilter) wantsCombination(c combination) bool {
	fits := func(want, field string) bool { return want == "" || want == field }
	_, tool, _ := strings.Cut(c.of(ByTool), "/")
	return (f.Tool == "" || f.Tool == tool || f.Tool == c.of(ByTool)) &&
		fits(string(f.Status), c.of(ByStatus)) && fits(string(f.Verdict), c.of(ByVerdict)) &&
		fits(string(f.Layer), c.of(ByLayer)) && fits(f.Principal, c.of(ByPrincipal)) &&
		fits(string(f.Channel), c.of(ByChannel)) && fits(f.Profile, c.of(ByProfile)) && fits(f.Role, c.of(ByRole))
}
