package policy

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"gatebook/events"
)

// RoundRequest is a wish to begin a round: a channel's, or, with Self, the agent's
// own, which names no channel, no sender and no profile.
type RoundRequest struct {
	Channel events.ChannelID
	Agent   events.AgentID
	Self    bool
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

// guestSuffix makes a channel's guest out of the channel's id.
const guestSuffix = "-guest"

// BeginRound answers the wish. A repeated wish gives the same round and
// no events; a granted one gives conversation.opened (where it is new),
// round.begun and, where what was asked for is not had, profile.defaulted, all
// about req.Agent.
func BeginRound(c *Compiled, req RoundRequest, f RoundBeginFacts) RoundDecision {
	if no := checkBegin(req); no != nil {
		return RoundDecision{Refusal: no}
	}
	principal, most, no := party(c, req, f.Agent)
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
		Task: events.Plain(req.Task), Timeout: c.Limits().RoundTimeout,
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
		round.Principal == principal && round.Session == effective &&
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

func checkBegin(req RoundRequest) *Refusal {
	if _, err := events.ParseDigest(string(req.HandleHash)); err != nil {
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
func party(c *Compiled, req RoundRequest, agent AgentFacts) (events.Principal, string, *Refusal) {
	if req.Self {
		return events.Principal{ID: string(req.Agent), Kind: events.PrincipalSelf}, "", mayBeginItself(c, req, agent)
	}
	ch, no := serves(c, req, agent)
	if no != nil {
		return events.Principal{}, "", no
	}
	principal, most := talks(ch, req.Channel, req.Sender)
	return principal, most, nil
}

// mayBeginItself refuses an agent whose entry does not say that it may, and a wish
// that claims what only a channel can say.
func mayBeginItself(c *Compiled, req RoundRequest, agent AgentFacts) *Refusal {
	switch {
	case c == nil || !agent.Enrolled || !c.catalog.Agents[req.Agent].SelfRounds:
		return refuse(CodeNotAllowed, "this agent may not begin a round by itself: a channel begins its rounds; where none serves it, its entry in the catalog can say self_rounds: true")
	case req.Channel != "" || req.Sender != "" || req.SenderText != "" || req.Profile != "":
		return refuse(CodeInvalid, "a round that an agent begins by itself has no channel, no sender and no profile of its own")
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
// profile decides, and why it is not the one asked for.
func (c *Compiled) sessionProfile(asked, most string) (effective, why string) {
	set, declared := c.profiles[asked]
	switch {
	case asked == "" || asked == most:
		return most, ""
	case asked == NoProfile:
		return NoProfile, ""
	case !declared:
		return NoProfile, "the catalog declares no profile of this name; names are exact, case included"
	case !set.within(c.profile(most)):
		return NoProfile, "the profile allows more than " + cmp.Or(most, "nothing") + ", which is the most that can be asked for by who is talking"
	}
	return asked, ""
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
	if req.Self {
		return round.Principal.Kind == events.PrincipalSelf && round.Channel == "" && req.Agent != "" && round.Agent == req.Agent
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

// MayAttach says whether a process of the agent serves the round; nil means yes.
// A round that does not exist, one of another agent and a wrong handle get the
// same answer.
func MayAttach(agent events.AgentID, handle events.Digest, round RoundFacts) *Refusal {
	switch {
	case agent == "" || round.Agent != agent || !sameHandle(handle, round.HandleHash):
		return refuse(CodeNoRound, "you have no round of this id and handle")
	case !round.Open:
		return &Refusal{Code: CodeRoundEnded, Reason: "the round " + string(round.Round) + " has ended", Round: round.Round}
	}
	return nil
}
