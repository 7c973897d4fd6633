import { describe, expect, it } from '@jest/globals';
import { type LoopResult, RunError } from '@toolloop/core';
import { answered } from '../../src/server/served-call.js';

describe('a call over MCP whose run was stopped', () => {
  it('is answered in the words of the end, which name a call whose outcome is unknown', async () => {
    const finishDetail = 'The run was stopped. It is unknown whether pay took place.';
    const result = { finishReason: 'aborted', finishDetail, toolCalls: [] };
    const failure = new RunError(result as unknown as LoopResult);
    await expect(answered(() => Promise.reject(failure))).rejects.toMatchObject({
      message: expect.stringContaining(finishDetail),
      data: { code: 'aborted' },
    });
  });
});
