package policy

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"slices"
	"unicode/utf8"

	"gatebook/events"
)

// RoundRequest is a wish to begin a round: a channel's; with Self the agent's own,
// with Cause that of its parent, with Job the engine's, which name no channel, no
// sender and no profile.
type RoundRequest struct {
	Channel events.ChannelID
	Agent   events.AgentID
	Self    bool
	Cause   events.RoundID // the round of the parent in which the child's is asked for
	Job     string         // of the catalog
	// Round and NewConversation are fresh ids to use if the wish is granted.
	Round           events.RoundID
	NewConversation events.ConversationID
	// Conversation to go on with; empty opens a new one.
	Conversation events.ConversationID
	// Fresh declares a new conversation free of what came before.
	Fresh bool
	// Sender is who talks, by the exact bytes that the catalog knows them by.
	Sender string
	// SenderText is what the book keeps of Sender, without secrets; empty keeps
	// Sender itself.
	SenderText string
	Profile    string // requested session profile; empty for none asked
	HandleHash events.Digest
	Task       string
	Model      string // claimed
}

// RoundBeginFacts are what the views say when a round is to begin.
type RoundBeginFacts struct {
	Agent AgentFacts
	// Conversation is the one that the request names.
	Conversation ConversationFacts
	// SameHandle is a round that was begun with the same handle hash.
	SameHandle RoundFacts
	// Cause is the round that the request names as its cause, Causing its agent.
	Cause   RoundFacts
	Causing AgentFacts
}

// ConversationFacts are what the views say about a conversation. The zero value
// is one that does not exist.
type ConversationFacts struct {
	Conversation events.ConversationID
	Agent        events.AgentID
	Channel      events.ChannelID
	Closed       bool
	OpenRound    events.RoundID
}

// RoundDecision is the answer to a [RoundRequest].
type RoundDecision struct {
	Events  []events.Event
	Round   events.RoundID
	Refusal *Refusal
}

// RoundEndRequest is a wish to end a round, of the channel that began it or, with
// Self, of the agent that did.
type RoundEndRequest struct {
	Channel    events.ChannelID
	Agent      events.AgentID
	Self       bool
	Round      events.RoundID
	HandleHash events.Digest
	End        events.RoundEnd
	Reason     string
}

// guestSuffix makes a channel's guest out of the channel's id, jobSuffix who talks in
// a job's rounds out of its name.
const (
	guestSuffix = "-guest"
	jobSuffix   = "-job"
)

// BeginRound answers the wish. A repeated wish gives the same round and
// no events; a granted one gives conversation.opened (where it is new),
// round.begun and, where what was asked for is not had, profile.defaulted, all
// about req.Agent.
func BeginRound(c *Compiled, req RoundRequest, f RoundBeginFacts) RoundDecision {
	if no := checkBegin(req); no != nil {
		return RoundDecision{Refusal: no}
	}
	principal, most, no := party(c, req, f)
	if no != nil {
		return RoundDecision{Refusal: no}
	}
	effective, why := c.sessionProfile(req.Profile, most)
	if same := f.SameHandle; same.Round != "" {
		if sameBegin(req, same, principal, effective) {
			return RoundDecision{Round: same.Round}
		}
		return RoundDecision{Refusal: otherBegin(req, same)}
	}
	var out []events.Event
	conversation := req.Conversation
	if conversation == "" {
		conversation = req.NewConversation
		out = append(out, events.ConversationOpened{Conversation: conversation, Channel: req.Channel, Fresh: req.Fresh})
	} else if no := goesOn(req, f.Conversation); no != nil {
		return RoundDecision{Refusal: no}
	}
	begun := events.RoundBegun{
		Round: req.Round, Conversation: conversation, Channel: req.Channel, HandleHash: req.HandleHash,
		Principal: principal, Sender: events.Plain(cmp.Or(req.SenderText, req.Sender)),
		Requested: events.Cut(req.Profile, events.MaxName), Effective: effective,
		Task: events.Plain(req.Task), CausedBy: req.Cause, Job: req.Job, Timeout: c.Limits().RoundTimeout,
	}
	if req.Model != "" {
		begun.Model = events.Model{Name: req.Model, Known: "claimed"}
	}
	out = append(out, begun)
	if why != "" {
		out = append(out, events.ProfileDefaulted{Round: req.Round, Asked: begun.Requested, Reason: why})
	}
	return RoundDecision{Events: out, Round: req.Round}
}

// sameBegin says whether a wish is the one that the round was begun by: the same
// party, by the same channel, in the same conversation, with the same rights.
func sameBegin(req RoundRequest, round RoundFacts, principal events.Principal, effective string) bool {
	return round.Channel == req.Channel && round.Agent == req.Agent && sameHandle(round.HandleHash, req.HandleHash) &&
		round.Principal == principal && round.Session == effective && round.CausedBy == req.Cause && round.Job == req.Job &&
		(req.Conversation == "" || req.Conversation == round.Conversation)
}

// otherBegin refuses a wish with the handle of a round that another wish began. Who
// began it hears which round that is while it is open.
func otherBegin(req RoundRequest, round RoundFacts) *Refusal {
	no := refuse(CodeConflict, "this handle belongs to another round; make a new random handle for each round")
	if round.Open && round.Channel == req.Channel && round.Agent == req.Agent && sameHandle(round.HandleHash, req.HandleHash) {
		no.Round = round.Round
	}
	return no
}

func digestForm(d events.Digest) bool {
	_, err := events.ParseDigest(string(d))
	return err == nil
}

func checkBegin(req RoundRequest) *Refusal {
	if !digestForm(req.HandleHash) {
		return refuse(CodeInvalid, "handle_hash: want the SHA-256 of the handle in 64 lower-case hexadecimal digits")
	}
	if req.Round == "" || req.NewConversation == "" {
		return refuse(CodeInvalid, "the wish came without fresh ids")
	}
	for _, t := range []struct {
		field, text string
		most        int
	}{{"sender", req.Sender, MaxSender}, {"sender", req.SenderText, MaxSender}, {"model", req.Model, events.MaxName}, {"task", req.Task, MaxTask}} {
		if len(t.text) > t.most || !utf8.ValidString(t.text) {
			return refuse(CodeInvalid, fmt.Sprintf("%s: want at most %d bytes of UTF-8", t.field, t.most))
		}
	}
	if req.Conversation != "" && req.Fresh {
		return refuse(CodeInvalid, "only a new conversation can be fresh: leave out the conversation, or fresh")
	}
	return nil
}

// party says who talks in such a round and the most profile of it, or why there
// can be none; empty where the agent's longtime profile decides.
func party(c *Compiled, req RoundRequest, f RoundBeginFacts) (events.Principal, string, *Refusal) {
	if req.Self || req.Cause != "" || req.Job != "" {
		if req.Channel != "" || req.Sender != "" || req.SenderText != "" || req.Profile != "" {
			return events.Principal{}, "", refuse(CodeInvalid, "a round that no channel begins has no channel, no sender and no profile of its own")
		}
	}
	switch {
	case req.Self:
		return events.Principal{ID: string(req.Agent), Kind: events.PrincipalSelf}, "", mayBeginItself(c, req, f.Agent)
	case req.Cause != "":
		if no := MayCause(c, req, f); no != nil {
			return events.Principal{}, "", no
		}
		principal := events.Principal{ID: string(f.Cause.Agent), Kind: events.PrincipalSubAgent}
		return principal, c.profileInEffect(f.Cause.Session, f.Causing.Longtime), nil
	case req.Job != "":
		job, no := c.job(req, f.Agent)
		return events.Principal{ID: req.Job + jobSuffix, Kind: events.PrincipalInternal}, job.Profile, no
	}
	ch, no := serves(c, req, f.Agent)
	if no != nil {
		return events.Principal{}, "", no
	}
	principal, most := talks(ch, req.Channel, req.Sender)
	if f.Agent.Parent != "" { // also where a user's words reach it
		principal.Kind = events.PrincipalSubAgent
	}
	return principal, most, nil
}

// MayCause refuses a cause that is not an open round of the agent's parent.
func MayCause(c *Compiled, req RoundRequest, f RoundBeginFacts) *Refusal {
	switch {
	case c == nil:
		return refuse(CodeNotAllowed, "no catalog is in force")
	case !f.Agent.Enrolled || f.Agent.Parent == "" || f.Agent.Parent != f.Cause.Agent:
		return refuse(CodeUnknownAgent, "you have no child "+events.Quote(string(req.Agent))+"; child.declare declares one")
	case f.Cause.Round != req.Cause || !f.Cause.Open:
		return refuse(CodeRoundEnded, "the round that asks has ended, so it causes nothing any more")
	}
	return nil
}

// job gives the job of the catalog that the wish names, if it may have its round.
func (c *Compiled) job(req RoundRequest, agent AgentFacts) (Job, *Refusal) {
	if c == nil {
		return Job{}, refuse(CodeNotAllowed, "no catalog is in force")
	}
	job, ok := c.catalog.Jobs[req.Job]
	if !ok || job.Agent != req.Agent || !agent.Enrolled || agent.Parent != "" { // a child of the agent's id is not it
		return Job{}, refuse(CodeNotAllowed, "the catalog in force has no such job of an enrolled agent of its own")
	}
	return job, nil
}

// mayBeginItself refuses an agent whose entry does not say that it may.
func mayBeginItself(c *Compiled, req RoundRequest, agent AgentFacts) *Refusal {
	if c == nil || !agent.Enrolled || agent.Parent != "" || !c.catalog.Agents[req.Agent].SelfRounds {
		return refuse(CodeNotAllowed, "this agent may not begin a round by itself: a channel begins its rounds; where none serves it, its entry in the catalog can say self_rounds: true")
	}
	return nil
}

// serves says that the channel may begin rounds for the agent.
func (ch Channel) serves(agent events.AgentID) bool {
	return slices.Contains(ch.Agents, "*") || slices.Contains(ch.Agents, string(agent))
}

// serves gives the channel, if it is there and serves the agent. An agent that
// does not exist and one of other channels get the same answer.
func serves(c *Compiled, req RoundRequest, agent AgentFacts) (Channel, *Refusal) {
	if c == nil {
		return Channel{}, refuse(CodeNotAllowed, "no catalog is in force")
	}
	ch, ok := c.catalog.Channels[req.Channel]
	if !ok {
		return Channel{}, refuse(CodeNotAllowed, "the catalog in force has no channel of this id; an approver can add it with gatebook channel add")
	}
	_, known := c.catalog.Agents[req.Agent]
	known = known || agent.Parent != ""
	if !known || !ch.serves(req.Agent) || !agent.Enrolled {
		return Channel{}, refuse(CodeUnknownAgent, "there is no enrolled agent "+events.Quote(string(req.Agent))+" that this channel serves: gatebook agent list names the enrolled ones, the channel's entry in the catalog those it serves")
	}
	return ch, nil
}

// goesOn says why the conversation named cannot get a round, if it cannot.
func goesOn(req RoundRequest, conv ConversationFacts) *Refusal {
	if conv.Conversation != req.Conversation || conv.Agent != req.Agent || conv.Channel != req.Channel {
		return refuse(CodeUnknownConversation, "this channel has no conversation "+events.Quote(string(req.Conversation))+" with this agent; leave it out to open a new one")
	}
	if conv.Closed {
		return refuse(CodeUnknownConversation, "the conversation "+string(req.Conversation)+" is closed; leave it out to open a new one")
	}
	if conv.OpenRound != "" {
		no := refuse(CodeRoundOpen, "the conversation has an open round, "+string(conv.OpenRound)+"; its channel must end it first, or it times out; without naming a conversation a new one is opened")
		no.Round = conv.OpenRound
		return no
	}
	return nil
}

// talks says who the channel's sender is and the most profile of such a round;
// empty where the agent's longtime profile decides.
func talks(ch Channel, id events.ChannelID, sender string) (events.Principal, string) {
	if s, ok := ch.Senders[sender]; ok {
		return events.Principal{ID: s.Principal, Kind: s.Kind}, s.Profile
	}
	kind := cmp.Or(ch.Guest.Kind, events.PrincipalUser)
	return events.Principal{ID: string(id) + guestSuffix, Kind: kind}, orNone(ch.Guest.Profile)
}

// sessionProfile gives the effective profile of a round, empty where the longtime
// profile decides, and why it is not the one asked for. A profile of less is had for
// the asking only where no expression looks at its name: a grant for that name, or a
// denial for the other, makes it more.
func (c *Compiled) sessionProfile(asked, most string) (effective, why string) {
	set, declared := c.profiles[asked]
	switch {
	case asked == "" || asked == most:
		return most, ""
	case asked == NoProfile:
		return NoProfile, ""
	case !declared:
		return NoProfile, "the catalog declares no profile of this name; names are exact, case included"
	case c.reads("profile"):
		return NoProfile, "rules look at the profile's name, so that none but " + orLongtime(most) + " is known to allow no more than it"
	case !set.within(c.profile(most)):
		return NoProfile, "the profile allows more than " + cmp.Or(most, "nothing") + ", which is the most that can be asked for by who is talking"
	}
	return asked, ""
}

// AcceptRound answers a process of the agent that offers to serve the next round that
// the engine begins for it, with the handle of this hash. It gives the round that was
// begun so already, empty for none. same is the round of that handle.
func AcceptRound(id events.AgentID, agent AgentFacts, handle events.Digest, same RoundFacts) (events.RoundID, *Refusal) {
	switch {
	case !digestForm(handle):
		return "", refuse(CodeInvalid, "handle_hash: want the SHA-256 of the handle in 64 lower-case hexadecimal digits")
	case !agent.Enrolled:
		return "", refuse(CodeUnknownAgent, "this agent is not enrolled, or it was released")
	case same.Round != "" && (same.Agent != id || same.Channel != "" || !sameHandle(same.HandleHash, handle)):
		return "", refuse(CodeConflict, "this handle belongs to another round; make a new random handle for each round")
	}
	return same.Round, nil
}

// DueJob is a job whose next round is due.
type DueJob struct {
	Job   string
	Agent events.AgentID
	Task  string
	Due   events.Instant
	// Missed says that it has been for as long as the job's rounds are apart.
	Missed bool
}

// HasJobs says whether there are any.
func (c *Compiled) HasJobs() bool { return c != nil && len(c.catalog.Jobs) > 0 }

// JobsDue are the jobs that are due, by name. last says when a round of one began or
// was missed; 0 for never, which is due since began.
func (c *Compiled) JobsDue(now, began events.Instant, last func(job string) (events.Instant, error)) ([]DueJob, error) {
	if c == nil {
		return nil, nil
	}
	var out []DueJob
	for _, name := range inOrder(c.catalog.Jobs) {
		job := c.catalog.Jobs[name]
		due := began
		if at, err := last(name); err != nil {
			return nil, err
		} else if at != 0 {
			due = at.Add(job.Every.Duration())
		}
		if now >= due { // nobody can be there before the engine is
			out = append(out, DueJob{name, job.Agent, job.Task, due, now.Sub(max(due, began)) >= job.Every.Duration()})
		}
	}
	return out, nil
}

// EndRound answers the wish to end a round: it must be of the party that began it,
// with its handle. A round that does not exist, one of somebody else and a wrong
// handle get the same answer.
func EndRound(req RoundEndRequest, round RoundFacts) RoundDecision {
	switch {
	case req.End != events.RoundCompleted && req.End != events.RoundFailed && req.End != events.RoundCancelled:
		return RoundDecision{Refusal: refuse(CodeInvalid, "end: want completed, failed or cancelled")}
	case round.Round == "" || round.Round != req.Round || !began(req, round) || !sameHandle(req.HandleHash, round.HandleHash):
		return RoundDecision{Refusal: refuse(CodeNoRound, "you began no round of this id and handle")}
	case !round.Open:
		return RoundDecision{Refusal: &Refusal{Code: CodeRoundEnded, Reason: "the round " + string(round.Round) + " has ended already", Round: round.Round}}
	}
	return CloseRound(round, req.End, req.Reason)
}

// began says whether the round is one that the asker began.
func began(req RoundEndRequest, round RoundFacts) bool {
	if req.Self { // those that the engine began for it too
		return round.Channel == "" && req.Agent != "" && round.Agent == req.Agent
	}
	return req.Channel != "" && round.Channel == req.Channel
}

// CloseRound ends a round in the engine's own name, because its agent was
// released, say. A round that is not open gives no events.
func CloseRound(round RoundFacts, end events.RoundEnd, reason string) RoundDecision {
	if round.Round == "" || !round.Open {
		return RoundDecision{Round: round.Round}
	}
	return RoundDecision{
		Round:  round.Round,
		Events: []events.Event{events.RoundEnded{Round: round.Round, End: end, Reason: events.Cut(reason, maxReason)}},
	}
}

// TimeoutRound ends a round whose deadline has come. The due view finds it; since
// then a call may have moved the deadline.
func TimeoutRound(round RoundFacts, now events.Instant) RoundDecision {
	if round.Deadline == 0 || round.Deadline > now {
		return RoundDecision{Round: round.Round}
	}
	return CloseRound(round, events.RoundTimedOut, "no call within the catalog's round_timeout")
}

// AbandonRound ends a round whose process is gone.
func AbandonRound(round RoundFacts) RoundDecision {
	return CloseRound(round, events.RoundCancelled, "the process that served the round is gone, or its agent was released")
}

// ServedBy says that the round is the agent's and that the handle is its.
func (r RoundFacts) ServedBy(agent events.AgentID, handle events.Digest) bool {
	return agent != "" && r.Agent == agent && sameHandle(handle, r.HandleHash)
}

// BegunBy says that the channel began the round and that the handle is its.
func (r RoundFacts) BegunBy(channel events.ChannelID, handle events.Digest) bool {
	return channel != "" && r.Channel == channel && sameHandle(handle, r.HandleHash)
}

// MayAttach says whether a process of the agent serves the round; nil means yes.
// A round that does not exist, one of another agent and a wrong handle get the
// same answer.
func MayAttach(agent events.AgentID, handle events.Digest, round RoundFacts) *Refusal {
	switch {
	case !round.ServedBy(agent, handle):
		return refuse(CodeNoRound, "you have no round of this id and handle")
	case !round.Open:
		return &Refusal{Code: CodeRoundEnded, Reason: "the round " + string(round.Round) + " has ended", Round: round.Round}
	}
	return nil
}

// MayAskOutcome says whether agent, with the handle of asked, may hear how a
// call of callRound ended: both rounds are the agent's, open or ended, and of the
// same conversation.
func MayAskOutcome(agent events.AgentID, handle events.Digest, asked, callRound RoundFacts) bool {
	return asked.ServedBy(agent, handle) && callRound.Agent == agent && asked.Conversation != "" && asked.Conversation == callRound.Conversation
}

// sameHandle compares in constant time; an empty hash is the hash of nothing.
func sameHandle(a, b events.Digest) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
