import { describe, expect, it } from '@jest/globals';
import { HttpException } from '@nestjs/common';
import type { RouteKey } from '@toolloop/protocol/routes';
import { readRequest, type RequestParts } from '../src/read-request.js';

/** The mistakes that are told of a request. */
function mistakesIn(key: RouteKey, parts: RequestParts): unknown {
  try {
    readRequest(key, parts);
    return [];
  } catch (error) {
    return error instanceof HttpException
      ? (error.getResponse() as { readonly message: unknown }).message
      : error;
  }
}

describe('the reading of a request', () => {
  it('makes one object of it, with the values that the texts of its address stand for', () => {
    expect(
      readRequest('GET /usage', {
        query: { limit: '5', everywhere: 'true', groupBy: 'day,model', from: '2026-11-01' },
      }),
    ).toEqual({ limit: 5, everywhere: true, groupBy: ['day', 'model'], from: '2026-11-01' });
    expect(
      readRequest('POST /policies/:number/rollback', {
        params: { number: '3' },
        body: { reason: 'A test.', expected: 4 },
      }),
    ).toEqual({ number: 3, reason: 'A test.', expected: 4 });
  });

  it.each<readonly [RouteKey, RequestParts, readonly string[]]>([
    ['POST /runs', { body: undefined }, ['message must be a text']],
    ['POST /runs', { body: [] }, ['The body must be an object']],
    ['POST /runs', { body: { message: 'hi', x: 1 } }, ['property x should not exist']],
    [
      'POST /runs',
      { body: { message: 'hi', cut: { at: 'x', y: 1 } } },
      ['property cut.y should not exist', 'cut.at must be a list of ids'],
    ],
    ['POST /runs', { body: { message: 'hi', cut: [] } }, ['cut must be an object']],
    ['POST /runs', { body: { message: 'hi', messageId: '' } }, ['messageId should not be empty']],
    [
      'GET /runs',
      { query: { limit: '0', status: 'x' } },
      ['limit must not be less than 1', 'status must be one of queued, running, waiting, ended'],
    ],
    ['GET /runs', { query: { limit: ['5'] } }, ['limit must be a whole number from 1 to 1000']],
    [
      'GET /runs/:runId/events',
      { query: { after: '' } },
      ['after must be the sequence of an event'],
    ],
    ['GET /policies/:number', { params: { number: '1.5' } }, ['number must be a whole number']],
    [
      'POST /policies',
      { body: { policy: null, reason: 'A test.', expected: 1.5 } },
      ['expected must be an integer number', 'policy should not be null or undefined'],
    ],
    ['POST /policies/replay', { body: { runs: [1] } }, ['each value in runs must be a string']],
    [
      'GET /usage',
      { query: { groupBy: 'week' } },
      [
        'each value in groupBy must be one of the following values: tenant, day, actor, tool, model',
      ],
    ],
  ])('refuses one of %s with every place of a mistake in it', (key, parts, mistakes) => {
    expect(mistakesIn(key, parts)).toEqual(mistakes);
  });

  it('accepts one without what is optional, and drops what its route ignores', () => {
    expect(
      readRequest('POST /approvals/:approvalId', {
        params: { approvalId: 'a' },
        body: { decision: 'approve', reason: undefined, amend: { remember: true, x: 1 }, y: 1 },
      }),
    ).toEqual({ approvalId: 'a', decision: 'approve', amend: { remember: true } });
  });
});
