import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomFrom } from '../chaos/random.js';
import { startDesk, type MeasuredDesk } from './desk.js';
import { slowProvider } from './provider.js';
import {
  heldAtRest,
  leftovers,
  someFaults,
  unendedRuns,
  unexplainedErrors,
  visitDesk,
} from './visitors.js';

describe('the demo under visits with faults, for a moment', () => {
  let desk: MeasuredDesk;
  let provider: Awaited<ReturnType<typeof slowProvider>>;
  beforeAll(async () => {
    provider = await slowProvider(someFaults(randomFrom(2)));
    desk = await startDesk({
      OPENAI_BASE_URL: provider.baseURL,
      TOOLLOOP_MODEL: 'slow',
      OPENAI_API_KEY: 'sk-soak',
    });
  });
  afterAll(async () => {
    await desk.stop();
    provider.server.closeAllConnections();
    provider.server.close();
  });

  it('holds no timer, socket or listener more when all have left, and leaves no rejection unhandled, no run that has not ended and no error in its log', async () => {
    const random = randomFrom(1);
    const rest = await heldAtRest({ desk, random, durable: 0.3, end: 0 });
    const counts = await visitDesk(
      { desk, random, durable: 0.3, end: performance.now() + 8_000 },
      20,
    );
    expect([counts.read > 0, counts.refused]).toEqual([true, 0]);
    expect(await leftovers(desk, rest)).toEqual([]);
    expect(await unendedRuns(desk)).toEqual([]);
    expect(unexplainedErrors(desk)).toEqual([]);
  });
});
