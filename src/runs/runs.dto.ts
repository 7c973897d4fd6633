import { Type } from 'class-transformer';
import { IsIn, IsInt, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';
import type { RunStatus } from '@toolloop/durable';

const STATUSES: readonly RunStatus[] = ['queued', 'running', 'waiting', 'ended'];
const LAST_SEQUENCE = 2_147_483_647;

/** Which runs to show. */
export class RunListing {
  @IsOptional() @IsIn(STATUSES, { message: `status must be one of ${STATUSES.join(', ')}` }) status?: RunStatus;
  /** The id of the last one of the page before. */
  @IsOptional() @IsString() @MaxLength(64) after?: string;
}

/** From where on to show a run's events. The guard has read the ticket already. */
export class EventsFrom {
  /** The sequence of the last event that is known. */
  @IsOptional()
  @Type(() => Number)
  @IsInt({ message: 'after must be the sequence of an event' })
  @Min(0)
  @Max(LAST_SEQUENCE)
  after: number = 0;
}

/** Where another run goes off. */
export class ForkFrom {
  /** The step after which it does; 0 for the beginning. */
  @IsInt({ message: 'step must be the number of a step' }) @Min(0) @Max(LAST_SEQUENCE) step!: number;
}

/** Why a run is to end. */
export class StopRun {
  @IsOptional() @IsString({ message: 'reason must be a text' }) @MaxLength(500) reason?: string;
}
