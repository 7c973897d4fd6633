import type { DeclaredTool } from '../tool-definition.js';
import {
  ANY,
  atMost,
  type Form,
  list,
  object,
  OPEN,
  optional,
  says,
  TEXT,
  typed,
  type ValueOf,
  WHOLE,
  words,
  YES_OR_NO,
} from './form.js';

/** The most entries of a page. */
export const MOST_LISTED = 1_000;

export const LAST_SEQUENCE = 2_147_483_647;

/** A text that a person writes. */
function written(maxLength?: number): Form<string> {
  return says(maxLength === undefined ? TEXT : atMost(maxLength), {
    type: '$property must be a text',
  });
}

/** An object whose further members are refused or dropped, as those of its request are. */
function part<Value>(form: Form<Value>): Form<Value> {
  return { ...form, additionalProperties: false };
}

export const YES_OR_NOT = says(YES_OR_NO, { type: '$property must be true or false' });

/** A list whose texts have a word of their own in what is told of it. */
function listOf(items: Form<string>, told: string, maxItems: number): Form<readonly string[]> {
  const isOne = `$property must be a list of ${told}`;
  const texts = { type: isOne, minLength: isOne, maxLength: isOne };
  return says(list(says(items, texts), maxItems), { type: isOne });
}

const ARGUMENTS = says(OPEN, { type: '$property must be an object' });
export const NAME = atMost(256);
const IDS = listOf({ ...NAME, minLength: 1 }, 'ids', 100);

/** A page of a list. */
export const PAGE = {
  /** The most entries of the page. */
  limit: optional(
    says(
      { ...WHOLE, minimum: 1, maximum: MOST_LISTED },
      { type: `limit must be a whole number from 1 to ${MOST_LISTED}` },
    ),
  ),
  /** The id of the last entry of the previous page. */
  after: optional(NAME),
};

const CUT = object({
  /**
   * Ids of runs, or the client's own of messages of the user: the first one that is found is where
   * the conversation is cut.
   */
  at: IDS,
  /**
   * The ids of runs whose answers stay, the latest last: if no place is found, the conversation
   * ends behind the latest of them that is found.
   */
  after: optional(IDS),
});

/** The place at which a conversation is cut. */
export type Cut = ValueOf<typeof CUT>;

const ASKED = {
  message: says(
    { ...TEXT, pattern: '\\S', maxLength: 8000 },
    {
      type: 'message must be a text',
      maxLength: 'message must have at most 8000 characters',
      pattern: 'message must not be empty',
    },
  ),
  /** Continues a conversation of the same actor, or begins one. */
  conversationId: optional(
    says(
      { ...TEXT, pattern: '^[A-Za-z0-9_-]{1,64}$' },
      { pattern: 'conversationId must be 1 to 64 letters, digits, "-" or "_"' },
    ),
  ),
  /**
   * The run changes nothing: it ends with the list of what it would change, which is performed once
   * people have approved it. @default false
   */
  rehearse: optional(YES_OR_NOT),
  /**
   * While another run of the conversation is under way: `queue` for its own run behind that one,
   * `addInput` to say it to that one. Both runs are the caller's own. @default 'queue'
   */
  whenBusy: optional(
    says(words('queue', 'addInput'), { enum: 'whenBusy must be "queue" or "addInput"' }),
  ),
  /**
   * The client's own id of the message, under which `cut` finds it when the user changes the words.
   */
  messageId: optional<string>({ ...NAME, minLength: 1 }),
  /**
   * Takes an answer back, with what follows it: the conversation ends before the first place that
   * is found, and this message takes its place.
   */
  cut: optional(says(part(CUT), { type: 'cut must be an object' })),
};

export const ASK = object(ASKED);

/** A question to the application's loop. */
export type Ask = ValueOf<typeof ASK>;

const POLICY_CHANGE = {
  reason: TEXT,
  /** The version that it follows, 0 for none: of two that follow the same one the second fails. */
  expected: WHOLE,
};

export const POLICY_NAME = says(atMost(200), { type: 'policy must be the name of a policy' });

/** A policy, or a list of them; the service says what is wrong in them. */
const POLICIES = typed<object>(ANY);

const AMENDMENT = object({
  /** The arguments that replace the model's: all of them. */
  args: optional(ARGUMENTS),
  /** Covers further calls of the same tool under the same rule in the same run. */
  remember: optional(YES_OR_NOT),
  /** Trusts these for the rest of the run, of those that the request names. */
  endorse: optional(
    part(
      object({
        arguments: optional(listOf(TEXT, 'texts', 100)),
        sources: optional(listOf(TEXT, 'texts', 100)),
      }),
    ),
  ),
});

/** The changes that a person makes to a call before saying yes to it. */
export type Amendment = ValueOf<typeof AMENDMENT>;

/** The bodies of requests, by their names in a document. */
export const BODIES = {
  /** A question whose answer is streamed. */
  AskToStream: object({
    ...ASKED,
    /** The run outlives the connection and the process; `/runs` has it. */
    durable: optional(YES_OR_NOT),
    /**
     * The answer has the form that the application declares: it is streamed as an object that
     * grows, and checked at its end.
     */
    structured: optional(YES_OR_NOT),
    /**
     * The tools that the client has. The loop says which of them are taken: see `clientTools`.
     */
    clientTools: optional(
      says(list(typed<DeclaredTool>({}), 100), { type: 'clientTools must be a list of tools' }),
    ),
  }),
  AskBody: ASK,
  /**
   * The answer to what a run asked: a decision about an approval or a rehearsal, the answer to a
   * question, or the result of a call that the client was to make. The service reads which, and
   * checks it.
   */
  ReplyBody: object({
    approvalId: optional(TEXT),
    rehearsalId: optional(TEXT),
    questionId: optional(TEXT),
    answer: optional(ANY),
    toolCallId: optional(TEXT),
    pendingId: optional(TEXT),
    decision: optional(TEXT),
    reason: optional(written(1000)),
    result: optional(ANY),
    error: optional(written(1000)),
  }),
  /** The reason why a run is to end, or is undone. */
  StopRun: object({ reason: optional(written(500)) }),
  /** The model and the policy with which a run is rehearsed, by names of `GET /rehearsals`. */
  RehearsalOrder: object({
    policy: optional(POLICY_NAME),
    model: optional(says(atMost(200), { type: 'model must be the name of a model' })),
  }),
  /** The place at which another run leaves this one. */
  ForkFrom: object({
    /** The last step that both share; 0 for none. */
    step: says(
      { ...WHOLE, minimum: 0, maximum: LAST_SEQUENCE },
      { type: 'step must be the number of a step' },
    ),
  }),
  /** A person's yes or no to a call. */
  Verdict: object({
    decision: says(words('approve', 'deny'), {
      enum: 'decision must be "approve" or "deny"',
    }),
    /** The model reads it. */
    reason: optional(
      says(written(1000), { maxLength: 'reason must have at most 1000 characters' }),
    ),
    amend: optional(part(AMENDMENT)),
    /**
     * The other calls of its group that the same decision is about, by the ids of their approvals.
     * Not beside changes of the call.
     */
    also: optional(listOf(TEXT, 'texts', MOST_LISTED)),
    /**
     * With a yes, as an operator who is permitted `policy`: makes a version of the tenant's policy
     * that trusts the value of an argument of this call in all further runs.
     */
    always: optional(part(object({ argument: written(), reason: written(1000) }))),
  }),
  /** The answer to a question, or that there is none. */
  QuestionReply: object({
    answer: optional(ANY),
    decision: optional(
      says(words('deny', 'withdraw'), { enum: 'decision must be "deny" or "withdraw"' }),
    ),
    reason: optional(written(1000)),
  }),
  /** The arguments of a call that a person makes by hand. */
  CallByHand: object({ args: optional(ARGUMENTS) }),
  /**
   * The finding of a person who looked whether the effect took place. Null is refused: it is no
   * answer.
   */
  Redrive: object({ tookPlace: optional(YES_OR_NOT) }),
  /** Policies to put in force. What is wrong with them is told with the place of each mistake. */
  NewPolicy: object({ ...POLICY_CHANGE, policy: POLICIES }),
  /** The target of a kill switch; without a tool and a source it is everything of the tenant. */
  StopOrder: object({
    reason: TEXT,
    /** A declared id. */
    tool: optional(TEXT),
    source: optional(TEXT),
    /** In all tenants, for an operator of all of them. @default the operator's own tenant */
    everywhere: optional(YES_OR_NOT),
  }),
  /** The reason for an action, which stays with it. */
  Reasoned: object({ reason: TEXT }),
  /**
   * The runs to look at again, and by what: a version, or policies that were never put. Without
   * both it is what the tenant started with.
   */
  ReplayOrder: object({
    version: optional(WHOLE),
    policy: optional(POLICIES),
    runs: list(TEXT),
  }),
  PolicyChange: object(POLICY_CHANGE),
};

export type BodyName = keyof typeof BODIES;

/** A page of what waits, of one run or of all. */
export const WAITING_PAGE = { ...PAGE, runId: optional(atMost(64)) };
