import { describe, expect, it, jest } from '@jest/globals';
import { unleash } from './chaos.js';
import { serverUrl } from './place.js';

jest.setTimeout(1_200_000);

const SMALL = { runs: 6, steps: 8, kills: 20, seed: 3 };
const suite = serverUrl() === undefined ? describe.skip : describe;
const reason =
  serverUrl() === undefined
    ? ' [skipped: set TOOLLOOP_TEST_POSTGRES=postgres://user@host:5432/database]'
    : '';

suite(
  `durable runs whose workers are killed and whose statements are cancelled and held up, on PostgreSQL${reason}`,
  () => {
    it('all end, and do what they do once; one that was frozen has no say any more', async () => {
      const report = await unleash({ engine: 'postgres', ...SMALL });
      expect(report.violations).toEqual([]);
      expect(report.frozen).toBe(1);
      expect([report.lost, report.twice]).toEqual([0, 0]);
      for (const troubles of [report.cut, report.cancelled, report.delayed])
        expect(troubles).toBeGreaterThan(0);
    });
  },
);
