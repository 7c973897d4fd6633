import { afterEach, describe, expect, it } from '@jest/globals';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterEach(closeAll);

const CALLS = 2_000;
const IN_FLIGHT = 20;

describe('a server that is asked by a busy client', () => {
  it.each(ERAS)(
    'answers 2,000 calls with 20 in flight, each with its own result (%s)',
    async (era) => {
      const client = await connect(
        await serve({ loop: { limits: { callsPerTool: CALLS + 1, identicalCalls: 2 } } }),
        { era },
      );
      await client.listTools();
      let next = 0;
      let right = 0;
      const ask = async (): Promise<void> => {
        for (let mine = next++; mine < CALLS; mine = next++) {
          const { content } = await client.callTool({
            name: 'notes__send',
            arguments: { to: `n${mine}` },
          });
          if (JSON.stringify(content).includes(`sent to n${mine}"`)) right += 1;
        }
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, ask));
      expect(right).toBe(CALLS);
    },
    120_000,
  );
});
