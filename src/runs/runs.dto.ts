import { Type } from 'class-transformer';
import { Allow, IsIn, IsInt, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';
import type { JsonValue } from '@toolloop/core';
import type { RunStatus } from '@toolloop/core/runs';

const STATUSES: readonly RunStatus[] = ['queued', 'running', 'waiting', 'ended'];
const LAST_SEQUENCE = 2_147_483_647;

/** A selection of runs. */
export class RunListing {
  @IsOptional() @IsIn(STATUSES, { message: `status must be one of ${STATUSES.join(', ')}` }) status?: RunStatus;
  /** The id of the last run of the previous page. */
  @IsOptional() @IsString() @MaxLength(64) after?: string;
}

/** The place in a run's events from which to show them. The guard has read the ticket already. */
export class EventsFrom {
  /** The sequence of the last event that the client knows. */
  @IsOptional()
  @Type(() => Number)
  @IsInt({ message: 'after must be the sequence of an event' })
  @Min(0)
  @Max(LAST_SEQUENCE)
  after: number = 0;
}

/** The place at which another run leaves this one. */
export class ForkFrom {
  /** The last step that both share; 0 for none. */
  @IsInt({ message: 'step must be the number of a step' }) @Min(0) @Max(LAST_SEQUENCE) step!: number;
}

/** The answer to what a run asked: a decision about an approval, the answer to a question, or the result of a call that the client was to make. The service reads which, and checks it. */
export class Reply {
  @IsOptional() @IsString() approvalId?: string;
  @IsOptional() @IsString() questionId?: string;
  @Allow() answer?: JsonValue;
  @IsOptional() @IsString() toolCallId?: string;
  @IsOptional() @IsString() pendingId?: string;
  @IsOptional() @IsString() decision?: string;
  @IsOptional() @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason?: string;
  @Allow() result?: JsonValue;
  @IsOptional() @IsString({ message: 'error must be a text' }) @MaxLength(1000) error?: string;
}

/** The reason why a run is to end. */
export class StopRun {
  @IsOptional() @IsString({ message: 'reason must be a text' }) @MaxLength(500) reason?: string;
}
