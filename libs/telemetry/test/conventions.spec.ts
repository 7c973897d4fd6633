import { describe, expect, it } from '@jest/globals';
import * as registry from '@opentelemetry/semantic-conventions/incubating';
import { ERROR_TYPE, GEN_AI, METRICS, SPAN_EVENTS, TOOLLOOP } from '../src/conventions.js';

const known: ReadonlySet<string> = new Set(
  Object.values(registry).filter((value) => typeof value === 'string'),
);

/**
 * Of the conventions' own repository, which the package does not follow yet: docs/gen-ai of its
 * release 0.1.0.
 */
const NEWER = new Set<string>([METRICS.runDuration, METRICS.toolDuration]);

describe('the names that Toolloop exports', () => {
  it.each([...Object.values(GEN_AI), ERROR_TYPE])(
    'are in the registry of the conventions: %s',
    (name) => {
      expect(known).toContain(name);
    },
  );

  it.each(Object.values(METRICS).filter((name) => name.startsWith('gen_ai.')))(
    'are metrics of the conventions: %s',
    (name) => {
      expect(known.has(name) || NEWER.has(name)).toBe(true);
    },
  );

  it('are in a namespace of their own where the conventions have no name', () => {
    const own = [
      ...Object.values(TOOLLOOP),
      ...Object.values(SPAN_EVENTS),
      ...Object.values(METRICS),
    ];
    expect(
      own.filter((name) => !name.startsWith('toolloop.') && !name.startsWith('gen_ai.')),
    ).toEqual([]);
    expect(own.filter((name) => name.startsWith('toolloop.') && known.has(name))).toEqual([]);
  });
});
