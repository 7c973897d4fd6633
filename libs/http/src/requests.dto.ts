import { Transform, Type } from 'class-transformer';
import {
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsDefined,
  IsIn,
  IsInt,
  IsNotEmpty,
  IsObject,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
  ValidateNested,
} from 'class-validator';
import type { DeclaredTool, Policy } from '@toolloop/core';
import type { RunStatus } from '@toolloop/core/runs';
import {
  type Ask,
  type Cut,
  DIRECTIVE_STATUSES,
  type DirectiveStatus,
  type JsonObject,
  type JsonValue,
  type WaitingFor,
} from '@toolloop/protocol';
import { MayBeAbsent } from './optional-field.js';
import { MOST_LISTED } from './pages.js';

const STATUSES: readonly RunStatus[] = ['queued', 'running', 'waiting', 'ended'];
const LAST_SEQUENCE = 2_147_483_647;

/** A switch in a query, where everything is a text. */
const toYesOrNo = Transform(({ value }) =>
  value === 'true' ? true : value === 'false' ? false : (value as unknown),
);

/** A page of a list. */
export class Page {
  /** The most entries of the page. */
  @MayBeAbsent()
  @Type(() => Number)
  @IsInt({ message: `limit must be a whole number from 1 to ${MOST_LISTED}` })
  @Min(1)
  @Max(MOST_LISTED)
  limit?: number;

  /** The id of the last entry of the previous page. */
  @MayBeAbsent() @IsString() @MaxLength(256) after?: string;
}

const IS_IDS = { each: true, message: '$property must be a list of ids' };

/** The place at which a conversation is cut. */
export class CutBody implements Cut {
  /**
   * Ids of runs, or the client's own of messages of the user: the first one that is found is where
   * the conversation is cut.
   */
  @IsArray()
  @ArrayMaxSize(100)
  @IsString(IS_IDS)
  @IsNotEmpty(IS_IDS)
  @MaxLength(256, IS_IDS)
  at!: string[];
  /**
   * The ids of runs whose answers stay, the latest last: if no place is found, the conversation
   * ends behind the latest of them that is found.
   */
  @MayBeAbsent()
  @IsArray()
  @ArrayMaxSize(100)
  @IsString(IS_IDS)
  @IsNotEmpty(IS_IDS)
  @MaxLength(256, IS_IDS)
  after?: string[];
}

/** A question to the loop. */
export class AskBody implements Ask {
  @IsString({ message: 'message must be a text' })
  @MaxLength(8000, { message: 'message must have at most 8000 characters' })
  @Matches(/\S/, { message: 'message must not be empty' })
  message!: string;

  /** Continues a conversation of the same actor, or begins one. */
  @MayBeAbsent()
  @Matches(/^[A-Za-z0-9_-]{1,64}$/, {
    message: 'conversationId must be 1 to 64 letters, digits, "-" or "_"',
  })
  conversationId?: string;

  /**
   * The run changes nothing: it ends with the list of what it would change, which people then
   * approve or not.
   */
  @MayBeAbsent() @IsBoolean({ message: 'rehearse must be true or false' }) rehearse?: boolean;

  /**
   * Says the message to the run of the conversation that is under way, or waits for its end. Both
   * runs are the caller's own.
   */
  @MayBeAbsent()
  @IsIn(['queue', 'addInput'], { message: 'whenBusy must be "queue" or "addInput"' })
  whenBusy?: 'queue' | 'addInput';

  /**
   * The client's own id of the message, under which `cut` finds it when the user changes the words.
   */
  @MayBeAbsent() @IsString() @IsNotEmpty() @MaxLength(256) messageId?: string;

  /**
   * Takes an answer back, with what follows it: the conversation ends before the place, and this
   * message takes its place.
   */
  @MayBeAbsent() @IsObject() @ValidateNested() @Type(() => CutBody) cut?: CutBody;
}

/** A question whose answer is streamed. */
export class AskToStream extends AskBody {
  /** The run outlives the connection and the process; `/runs` has it. */
  @MayBeAbsent() @IsBoolean({ message: 'durable must be true or false' }) durable?: boolean;

  /**
   * The answer has the form that the application declares: it is streamed as an object that grows,
   * and checked at its end.
   */
  @MayBeAbsent()
  @IsBoolean({ message: 'structured must be true or false' })
  structured?: boolean;

  /**
   * The tools that the client has. What of them is taken is the loop's to say: see `clientTools`.
   */
  @MayBeAbsent()
  @IsArray({ message: 'clientTools must be a list of tools' })
  @ArrayMaxSize(100)
  clientTools?: DeclaredTool[];
}

/** A selection of runs. */
export class RunListing extends Page {
  /** Another actor of the tenant, for an operator who is permitted `runs`. */
  @MayBeAbsent() @IsString() @MaxLength(256) actorId?: string;
  /** Everyone of the tenant, for such an operator. */
  @MayBeAbsent()
  @toYesOrNo
  @IsBoolean({ message: 'ofTenant must be true or false' })
  ofTenant?: boolean;
  @MayBeAbsent()
  @IsIn(STATUSES, { message: `status must be one of ${STATUSES.join(', ')}` })
  status?: RunStatus;
}

/**
 * The place in a run's events from which to show them. Other members of the query, such as a
 * ticket, are the application's.
 */
export class EventsFrom {
  /** The sequence of the last event that the client knows. */
  @MayBeAbsent()
  @Type(() => Number)
  @IsInt({ message: 'after must be the sequence of an event' })
  @Min(0)
  @Max(LAST_SEQUENCE)
  after: number = 0;
}

/** The place at which another run leaves this one. */
export class ForkFrom {
  /** The last step that both share; 0 for none. */
  @IsInt({ message: 'step must be the number of a step' })
  @Min(0)
  @Max(LAST_SEQUENCE)
  step!: number;
}

/** The policy by which a run or its rehearsal is compared. */
export class RehearsalBy {
  @MayBeAbsent()
  @IsString({ message: 'policy must be the name of a policy' })
  @MaxLength(200)
  policy?: string;
}

/** The model and the policy with which a run is rehearsed, by names of `GET /rehearsals`. */
export class RehearsalOrder extends RehearsalBy {
  @MayBeAbsent()
  @IsString({ message: 'model must be the name of a model' })
  @MaxLength(200)
  model?: string;
}

/** The reason why a run is to end, or is undone. */
export class StopRun {
  @MayBeAbsent() @IsString({ message: 'reason must be a text' }) @MaxLength(500) reason?: string;
}

/**
 * The answer to what a run asked: a decision about an approval or a rehearsal, the answer to a
 * question, or the result of a call that the client was to make. The service reads which, and
 * checks it.
 */
export class ReplyBody {
  @MayBeAbsent() @IsString() approvalId?: string;
  @MayBeAbsent() @IsString() rehearsalId?: string;
  @MayBeAbsent() @IsString() questionId?: string;
  @MayBeAbsent() answer?: JsonValue;
  @MayBeAbsent() @IsString() toolCallId?: string;
  @MayBeAbsent() @IsString() pendingId?: string;
  @MayBeAbsent() @IsString() decision?: string;
  @MayBeAbsent() @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason?: string;
  @MayBeAbsent() result?: JsonValue;
  @MayBeAbsent() @IsString({ message: 'error must be a text' }) @MaxLength(1000) error?: string;
}

const IS_TEXTS = { each: true, message: '$property must be a list of texts' };

/** Values and sources that a person trusts. */
export class Trust {
  @MayBeAbsent() @IsArray() @ArrayMaxSize(100) @IsString(IS_TEXTS) arguments?: string[];
  @MayBeAbsent() @IsArray() @ArrayMaxSize(100) @IsString(IS_TEXTS) sources?: string[];
}

/** An argument whose value an operator trusts in all further runs of the tenant. */
export class TrustForGood {
  @IsString({ message: 'argument must be a text' }) argument!: string;
  @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason!: string;
}

/**
 * The changes that a person makes to a call before saying yes to it, where the policy lets them.
 */
export class Amendment {
  /** The arguments that replace the model's: all of them. */
  @MayBeAbsent() @IsObject({ message: 'args must be an object' }) args?: JsonObject;
  /** Covers further calls of the same tool under the same rule in the same run. */
  @MayBeAbsent() @IsBoolean({ message: 'remember must be true or false' }) remember?: boolean;
  /** The things that the person trusts for the rest of the run, of those that the request names. */
  @MayBeAbsent() @ValidateNested() @Type(() => Trust) endorse?: Trust;
}

/** A person's yes or no to a call. */
export class Verdict {
  @IsIn(['approve', 'deny'], { message: 'decision must be "approve" or "deny"' })
  decision!: 'approve' | 'deny';

  /** The model reads it. */
  @MayBeAbsent()
  @IsString({ message: 'reason must be a text' })
  @MaxLength(1000, { message: 'reason must have at most 1000 characters' })
  reason?: string;

  @MayBeAbsent() @ValidateNested() @Type(() => Amendment) amend?: Amendment;

  /**
   * The other calls of its group that the same decision is about, by the ids of their approvals.
   */
  @MayBeAbsent() @IsArray() @ArrayMaxSize(1000) @IsString(IS_TEXTS) also?: string[];

  /**
   * With a yes, as an operator who is permitted `policy`: makes a version of the tenant's policy
   * that trusts the value of an argument of this call.
   */
  @MayBeAbsent() @ValidateNested() @Type(() => TrustForGood) always?: TrustForGood;
}

/** A selection of what waits. */
export class QuestionListing extends Page {
  @MayBeAbsent() @IsString() @MaxLength(64) runId?: string;
}

const KINDS = [
  'approval',
  'question',
  'client',
  'rehearsal',
] as const satisfies readonly WaitingFor[];

/** A selection of what waits, of one kind or of all. */
export class PendingListing extends QuestionListing {
  @MayBeAbsent()
  @IsIn(KINDS, { message: `kind must be one of ${KINDS.join(', ')}` })
  kind?: (typeof KINDS)[number];
}

/** The answer to a question, or that there is none. */
export class QuestionReply {
  @MayBeAbsent() answer?: JsonValue;
  @MayBeAbsent()
  @IsIn(['deny', 'withdraw'], { message: 'decision must be "deny" or "withdraw"' })
  decision?: 'deny' | 'withdraw';
  @MayBeAbsent() @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason?: string;
}

/** The place in a conversation from which to read it. */
export class ConversationFrom {
  /** The number of its first message. */
  @MayBeAbsent()
  @Matches(/^\d{1,9}$/, { message: 'from must be the number of a message' })
  from?: string;
}

/** A selection of directives. */
export class DirectiveListing extends Page {
  @MayBeAbsent()
  @IsIn(DIRECTIVE_STATUSES, { message: `status must be one of ${DIRECTIVE_STATUSES.join(', ')}` })
  status?: DirectiveStatus;
  @MayBeAbsent() @IsString() @MaxLength(256) subject?: string;
}

/**
 * The finding of a person who looked whether the effect took place. Null is refused: it is no
 * answer.
 */
export class Redrive {
  @MayBeAbsent() @IsBoolean({ message: 'tookPlace must be true or false' }) tookPlace?: boolean;
}

const DIMENSIONS = ['tenant', 'day', 'actor', 'tool', 'model'] as const;

/** A selection of what was used. `?groupBy=day,model` has a row for each day and model. */
export class UsageSelection extends Page {
  @MayBeAbsent() @IsString() tenant?: string;
  /** All tenants, for an operator of all of them. */
  @MayBeAbsent()
  @toYesOrNo
  @IsBoolean({ message: 'everywhere must be true or false' })
  everywhere?: boolean;
  @MayBeAbsent() @IsString() actor?: string;
  @MayBeAbsent() @IsString() tool?: string;
  @MayBeAbsent() @IsString() model?: string;
  @MayBeAbsent() @IsString() from?: string;
  @MayBeAbsent() @IsString() to?: string;
  @MayBeAbsent()
  @Transform(({ value }) => (typeof value === 'string' ? value.split(',') : (value as unknown)))
  @IsIn(DIMENSIONS, { each: true })
  groupBy?: (typeof DIMENSIONS)[number][];
}

/** The arguments of a call that a person makes by hand. */
export class CallByHand {
  @MayBeAbsent() @IsObject({ message: 'args must be an object' }) args?: JsonObject;
}

/** The call to explain, or the actor for whom the tool is explained. */
export class Explained {
  /** An actor of the operator's own tenant. @default the operator */
  @MayBeAbsent() @IsString() actorId?: string;
  @MayBeAbsent() @IsString() runId?: string;
  @MayBeAbsent() @IsString() toolCallId?: string;
}

const toNumber = Transform(({ value }) => Number(value));

/** A page of versions. */
export class VersionPage {
  @MayBeAbsent() @toNumber @IsInt() @Min(1) @Max(MOST_LISTED) limit?: number;
  @MayBeAbsent() @toNumber @IsInt() before?: number;
}

/** The two versions to compare. */
export class VersionPair {
  @toNumber @IsInt() from!: number;
  @toNumber @IsInt() to!: number;
}

/** The reason for an action, which stays with it. */
export class Reasoned {
  @IsString() reason!: string;
}

/** The change that follows a version: of two that follow the same one, the second is a 409. */
export class PolicyChange extends Reasoned {
  @IsInt() expected!: number;
}

/** Policies to put in force. What is wrong with them is told with the place of each mistake. */
export class NewPolicy extends PolicyChange {
  @IsDefined() policy!: Policy | Policy[];
}

/**
 * The runs to look at again, and by what: a version, or policies that were never put. Without both
 * it is what the tenant started with.
 */
export class ReplayOrder {
  @MayBeAbsent() @IsInt() version?: number;
  @MayBeAbsent() policy?: Policy | Policy[];
  @IsString({ each: true }) runs!: string[];
}

/** The target of a kill switch; without a tool and a source it is everything of the tenant. */
export class StopOrder extends Reasoned {
  @MayBeAbsent() @IsString() tool?: string;
  @MayBeAbsent() @IsString() source?: string;
  /** In all tenants, for an operator of all of them. */
  @MayBeAbsent() @IsBoolean({ message: 'everywhere must be true or false' }) everywhere?: boolean;
}

/** The part of the audit that is wanted. */
export class AuditFrom {
  /** The sequence of the first entry. */
  @MayBeAbsent()
  @toNumber
  @IsInt({ message: 'from must be the sequence of an entry' })
  @Min(1)
  from?: number;
}
