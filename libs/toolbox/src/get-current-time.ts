import { ConfigurationError, type RawToolDeclaration, ToolError, ToolField } from '@toolloop/core';
import { Expose } from 'class-transformer';
import { IsOptional, IsString, MaxLength } from 'class-validator';

/** The port to the time, so that tests and replays decide it. */
export abstract class Clock {
  abstract now(): Date;
}

/** The clock of this machine. */
export class SystemClock extends Clock {
  now(): Date {
    return new Date();
  }
}

/** The input of `core__get_current_time`. */
export class GetCurrentTimeInput {
  @ToolField({ description: 'An IANA time zone.', example: 'Europe/Berlin' })
  @IsOptional()
  @IsString()
  @MaxLength(64)
  readonly timeZone?: string;
}

/** A moment as people in one time zone read it off a clock. */
export class CurrentTime {
  /** ISO 8601 with the zone's offset: `2026-03-29T03:30:00+02:00`. */
  @Expose() readonly time: string;
  /** In English. */
  @Expose() readonly weekday: string;
  @Expose() readonly timeZone: string;

  constructor(time: string, weekday: string, timeZone: string) {
    this.time = time;
    this.weekday = weekday;
    this.timeZone = timeZone;
  }
}

export interface GetCurrentTimeOptions {
  /** Used where the model names none. @default 'UTC' */
  readonly timeZone?: string;
  /** @default the clock of this machine */
  readonly clock?: Clock;
}

/** Models do not know what day it is; this tells them. */
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

  /** Throws a `ConfigurationError` when the default time zone is none. */
  constructor({ clock = new SystemClock(), timeZone = 'UTC' }: GetCurrentTimeOptions = {}) {
    if (!formatFor(timeZone)) {
      const remedy = 'Use an IANA name, such as Europe/Berlin.';
      throw new ConfigurationError([{ at: 'GetCurrentTime', problem: `"${timeZone}" is not a time zone.`, remedy }]);
    }
    this.clock = clock;
    this.timeZone = timeZone;
  }

  /** Throws a `ToolError` when the time zone is unknown. */
  call({ timeZone = this.timeZone }: GetCurrentTimeInput): CurrentTime {
    const format = formatFor(timeZone);
    if (!format)
      throw new ToolError(`The time zone is unknown. Use an IANA name, such as Europe/Berlin, or leave it out for ${this.timeZone}.`);
    const parts = new Map(format.formatToParts(this.clock.now()).map(({ type, value }) => [type, value]));
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? '';
    const offset = part('timeZoneName').replace('GMT', '') || '+00:00';
    const date = `${part('year')}-${part('month')}-${part('day')}`;
    const time = `${part('hour')}:${part('minute')}:${part('second')}`;
    return new CurrentTime(`${date}T${time}${offset}`, part('weekday'), timeZone);
  }
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
