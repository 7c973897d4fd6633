import { ConfigurationError, ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsOptional, IsString, MaxLength } from 'class-validator';

/** The input of `core__get_current_time`. */
export class GetCurrentTimeInput {
  @ToolField({ description: 'An IANA time zone.', example: 'Europe/Berlin' })
  @IsOptional()
  @IsString()
  @MaxLength(64)
  readonly timeZone?: string;
}

/** A date, time and weekday in one time zone. */
export class CurrentTime {
  /** The time in ISO 8601 with the zone's offset: `2026-03-29T03:30:00+02:00`. */
  @Expose() readonly time: string;
  /** The weekday in English. */
  @Expose() readonly weekday: string;
  @Expose() readonly timeZone: string;

  constructor(time: string, weekday: string, timeZone: string) {
    this.time = time;
    this.weekday = weekday;
    this.timeZone = timeZone;
  }
}

/**
 * Tells a model the current date and time, which it does not know.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   tools: [rawTool(GetCurrentTime, { options: { timeZone: 'Europe/Berlin' } })],
 * });
 */
export class GetCurrentTime {
  static readonly tool: RawToolDeclaration<GetCurrentTimeInput> = {
    id: 'core__get_current_time',
    description: 'Tells the current date, time and weekday in a time zone.',
    effect: 'read_only',
    labels: { reads: 'public', returns: 'trusted', egress: false },
    input: GetCurrentTimeInput,
    output: CurrentTime,
  };

  private readonly clock: Clock;
  private readonly timeZone: string;

  /** @throws ConfigurationError if the default time zone is unknown */
  constructor({ clock = new SystemClock(), timeZone = 'UTC' }: GetCurrentTimeOptions = {}) {
    if (!formatFor(timeZone)) {
      const remedy = 'Use an IANA name, such as Europe/Berlin.';
      throw new ConfigurationError([
        { at: 'GetCurrentTime', problem: `"${timeZone}" is not a time zone.`, remedy },
      ]);
    }
    this.clock = clock;
    this.timeZone = timeZone;
  }

  /** @throws ToolError if the time zone is unknown */
  call({ timeZone = this.timeZone }: GetCurrentTimeInput): CurrentTime {
    const format = formatFor(timeZone);
    if (!format)
      throw new ToolError(
        `The time zone is unknown. Use an IANA name, such as Europe/Berlin, or leave it out for ${this.timeZone}.`,
      );
    const parts = new Map(
      format.formatToParts(this.clock.now()).map(({ type, value }) => [type, value]),
    );
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
    const offset = part('timeZoneName').replace('GMT', '') || '+00:00';
    const date = `${part('year')}-${part('month')}-${part('day')}`;
    const time = `${part('hour')}:${part('minute')}:${part('second')}`;
    return new CurrentTime(`${date}T${time}${offset}`, part('weekday'), timeZone);
  }
}

/**
 * The port of the current time, so that tests and replays can set it.
 *
 * @example
 * class FixedClock extends Clock {
 *   now(): Date {
 *     return new Date('2026-03-29T01:30:00Z');
 *   }
 * }
 */
export abstract class Clock {
  abstract now(): Date;
}

/** The clock of this machine. */
export class SystemClock extends Clock {
  now(): Date {
    return new Date();
  }
}

export interface GetCurrentTimeOptions {
  /** The time zone where the model names none. @default 'UTC' */
  readonly timeZone?: string;
  /** @default the clock of this machine */
  readonly clock?: Clock;
}

function formatFor(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      weekday: 'long',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      timeZoneName: 'longOffset',
    });
  } catch {
    return undefined;
  }
}
