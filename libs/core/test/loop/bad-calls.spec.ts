import { describe, expect, it } from '@jest/globals';
import { ToolError, type ToolInvocationRecord } from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { EMPTY, NEVER, of, throwError } from 'rxjs';
import { play, resultsIn } from '../fixtures/played-run.js';
import type { Act } from '../fixtures/probe.tools.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/** A run whose model makes one call, reads what became of it and says so. */
async function callOnce(
  name: string,
  args: string,
  act?: Act,
): Promise<{ readonly record: ToolInvocationRecord; readonly content: string }> {
  const model = new ScriptedModel([calls(call(name, args)), text('Done.')]);
  const loop = await openShop(model);
  const { result } = await play(
    loop,
    ask({ limits: { toolCallMs: 40 }, ...(act && { context: { act } }) }),
  );
  expect(result.finishReason).toBe('stop');
  expect(result.toolCalls).toHaveLength(1);
  model.assertComplete();
  const [record] = result.toolCalls;
  if (!record) throw new Error('There is no record.');
  return { record, content: resultsIn(result.messages).join() };
}

describe('invariant 5: a call that cannot be made has one result all the same', () => {
  it.each([
    ['half an object', '{"key":', 'invalid_json'],
    ['single quotes', "{'key':'a'}", 'invalid_json'],
    ['words', 'key is a', 'invalid_json'],
    ['two objects', '{"key":"a"}{"key":"b"}', 'invalid_json'],
    ['a lone surrogate and a NUL', '\uD800\u0000', 'invalid_json'],
    ['a list', '["a"]', 'invalid_args'],
    ['a string', '"a"', 'invalid_args'],
    ['a number', '7', 'invalid_args'],
    ['true', 'true', 'invalid_args'],
    ['null, which is no arguments', 'null', 'invalid_args'],
    ['an empty text, which is no arguments', '', 'invalid_args'],
    ['a number for a string', '{"key":7}', 'invalid_args'],
    ['null for a string', '{"key":null}', 'invalid_args'],
    ['an object for a string', '{"key":{"$ne":""}}', 'invalid_args'],
    ['an argument too many', '{"key":"a","more":1}', 'invalid_args'],
    ['a prototype', '{"key":"a","__proto__":{"x":1}}', 'invalid_args'],
    ['a tenant', '{"key":"a","tenant":"globex"}', 'tenant_override'],
    ['9 KB', JSON.stringify({ key: 'x'.repeat(9 * 1024) }), 'invalid_args'],
    ['1 MB', JSON.stringify({ key: 'x'.repeat(1024 * 1024) }), 'invalid_args'],
    ['200,000 brackets', '['.repeat(100_000) + ']'.repeat(100_000), 'invalid_args'],
    ['4,000 levels', `{"key":${'['.repeat(2000)}${']'.repeat(2000)}}`, 'invalid_args'],
  ])('has it for arguments that are %s', async (_, args, code) => {
    const { record, content } = await callOnce('probe__read', args);
    expect(record).toMatchObject({ id: 'probe__read', error: { code } });
    expect(JSON.parse(content)).toMatchObject({ errors: [{ code }] });
  });

  it.each([
    'probe__raed',
    'read',
    'probe_read',
    '',
    ' ',
    'probe__read ',
    '../etc/passwd',
    '\u0000',
    'toString',
    '__proto__',
  ])('has it for a tool named %j', async (name) => {
    const { record } = await callOnce(name, '{"key":"a"}');
    expect(record).toMatchObject({ id: name, status: 'failed', error: { code: 'unknown_tool' } });
    expect(record).not.toHaveProperty('declaredId');
  });

  it('has it for a tool with a name of 10,000 characters', async () => {
    const { record, content } = await callOnce('x'.repeat(10_000), '{"key":"a"}');
    expect(record).toMatchObject({ status: 'failed', error: { code: 'unknown_tool' } });
    expect(content.length).toBeLessThan(500);
  });
});

function boom(error: unknown): Act {
  return () => {
    throw error;
  };
}

const circular: Record<string, unknown> = { name: 'loop' };
circular['self'] = circular;

describe('invariant 5: a call whose tool misbehaves has one result all the same', () => {
  it.each<[string, Act, string]>([
    ['throws an error', boom(new Error('secret')), 'execution_failed'],
    ['throws a string', boom('secret'), 'execution_failed'],
    ['throws nothing', boom(undefined), 'execution_failed'],
    ['throws null', boom(null), 'execution_failed'],
    ['says what went wrong', boom(new ToolError('Try another key.')), 'execution_failed'],
    ['throws an error without a prototype', boom(Object.create(null)), 'execution_failed'],
    ['rejects', () => Promise.reject(new Error('secret')), 'execution_failed'],
    [
      'rejects later',
      () => new Promise((_, reject) => setTimeout(() => reject(new Error('secret')), 5)),
      'execution_failed',
    ],
    ['errors as an Observable', () => throwError(() => new Error('secret')), 'execution_failed'],
    ['hangs', () => new Promise(() => undefined), 'timeout'],
    ['is an Observable that never ends', () => NEVER, 'timeout'],
    ['returns a function, which nothing calls', () => () => 1, 'execution_failed'],
    ['returns itself within itself', () => circular, 'invalid_output'],
    [
      'returns an instance of a class that exposes nothing',
      () => new Map([[{}, new URLSearchParams()]]),
      'invalid_output',
    ],
  ])('has it when the tool %s', async (_, act, code) => {
    const { record, content } = await callOnce('probe__read', '{"key":"a"}', act);
    expect(record).toMatchObject({ status: 'failed', error: { code } });
    expect(content).not.toContain('secret');
  });

  it.each<[string, Act]>([
    ['nothing', () => undefined],
    ['null', () => null],
    ['a symbol', () => Symbol('s')],
    ['an empty Observable', () => EMPTY],
    ['an Observable of many values', () => of(1, 2, 3)],
    ['NaN', () => Number.NaN],
    ['a bigint', () => 10n ** 30n],
    ['a date that is none', () => new Date(Number.NaN)],
    ['an object without a prototype', () => Object.assign(Object.create(null) as object, { a: 1 })],
    ['an object with a field named constructor', () => ({ constructor: 'Ford' })],
  ])('has it when the tool returns %s', async (_, act) => {
    const { record, content } = await callOnce('probe__read', '{"key":"a"}', act);
    expect(record).toMatchObject({ status: 'succeeded' });
    expect(content).not.toBe('');
  });

  it('has it when its result is larger than a model may read', async () => {
    const { record, content } = await callOnce('probe__read', '{"key":"a"}', () =>
      'ä'.repeat(1_000_000),
    );
    expect(record).toMatchObject({ status: 'succeeded', resultBytes: 2_000_000, truncated: true });
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(32 * 1024);
  });

  it('has it when the tool changes things, and hangs: the outcome is unknown', async () => {
    const { record } = await callOnce(
      'probe__write',
      '{"key":"a"}',
      () => new Promise(() => undefined),
    );
    expect(record).toMatchObject({ status: 'failed', error: { code: 'unknown_outcome' } });
  });
});
