import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, ToolError } from '@toolloop/core';
import { Clock, GetCurrentTime } from '@toolloop/toolbox';

class StoppedClock extends Clock {
  constructor(private readonly time: string) {
    super();
  }

  now(): Date {
    return new Date(this.time);
  }
}

function at(time: string, timeZone?: string): GetCurrentTime {
  return new GetCurrentTime({ clock: new StoppedClock(time), timeZone });
}

describe('core__get_current_time', () => {
  it.each([
    ['UTC', '2026-03-29T00:59:59+00:00', 'Sunday'],
    ['Europe/Berlin', '2026-03-29T01:59:59+01:00', 'Sunday'],
    ['America/New_York', '2026-03-28T20:59:59-04:00', 'Saturday'],
    ['Asia/Kolkata', '2026-03-29T06:29:59+05:30', 'Sunday'],
  ])('tells the time in %s', (timeZone, time, weekday) => {
    expect(at('2026-03-29T00:59:59Z').call({ timeZone })).toEqual({ time, weekday, timeZone });
  });

  it('follows a change of the clocks', () => {
    expect(at('2026-03-29T01:00:00Z').call({ timeZone: 'Europe/Berlin' }).time).toBe(
      '2026-03-29T03:00:00+02:00',
    );
  });

  it('writes midnight as 00', () => {
    expect(at('2026-01-01T00:00:00Z').call({}).time).toBe('2026-01-01T00:00:00+00:00');
  });

  it('uses the zone of its options where the model names none', () => {
    expect(at('2026-07-01T12:00:00Z', 'Asia/Tokyo').call({}).timeZone).toBe('Asia/Tokyo');
  });

  it('uses the clock of this machine by default', () => {
    const before = Date.now();
    const now = Date.parse(new GetCurrentTime().call({}).time);
    expect(now).toBeGreaterThan(before - 1_000); // it tells whole seconds
    expect(now).toBeLessThanOrEqual(Date.now());
  });

  it('says what to do about an unknown zone, without repeating it', () => {
    const tool = at('2026-01-01T00:00:00Z');
    const call = () => tool.call({ timeZone: 'Mars/Olympus' });
    expect(call).toThrow(ToolError);
    expect(call).toThrow(/IANA name, such as Europe\/Berlin/);
    expect(call).not.toThrow(/Mars/);
  });

  it('does not start with an unknown default zone', () => {
    expect(() => new GetCurrentTime({ timeZone: 'Nowhere' })).toThrow(ConfigurationError);
  });
});
