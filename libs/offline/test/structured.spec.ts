import type { Message } from '@toolloop/core';
import type { AnswerFormat } from '@toolloop/protocol';
import { describe, expect, it } from '@jest/globals';
import { Ajv } from 'ajv';
import { offline } from '../src/index.js';
import { airline, school } from './domains.js';
import { assistantMessage, eventsOf, runLoop, type Run } from './loop.js';
import { orderDesk } from './order-desk.js';

type Schema = AnswerFormat['schema'];

const ajv = new Ajv({ strict: false, validateFormats: false });
const question = "What is John Smith's average spend?";

async function answered(
  prompt: string,
  tools: Parameters<typeof runLoop>[1],
  schema: Schema,
  messages: readonly Message[] = [],
): Promise<{ run: Run; json: unknown }> {
  const run = await runLoop(prompt, tools, { messages, answerFormat: { name: 'answer', schema } });
  const json: unknown = JSON.parse(run.text);
  expect(ajv.validate(schema, json) || ajv.errorsText()).toBe(true);
  return { run, json };
}

const spendSchema: Schema = {
  type: 'object',
  properties: {
    answer: { type: 'string' },
    customerId: { type: 'string' },
    amount: { type: 'number' },
    currency: { type: 'string', enum: ['USD', 'EUR'] },
    confidence: { type: 'number', minimum: 0.5, maximum: 1 },
    note: { type: ['string', 'null'] },
    orders: { type: 'array', items: { type: 'string' }, minItems: 1 },
  },
  required: ['answer', 'customerId', 'amount', 'currency', 'confidence', 'note', 'orders'],
  additionalProperties: false,
};

describe('an answer in a wanted shape', () => {
  it('takes values from the results by name, the sentence where text is wanted, and fills what is required', async () => {
    const { json, run } = await answered(question, orderDesk, spendSchema);
    expect(json).toEqual({
      answer: "John Smith's average spend is 450.00 EUR.",
      customerId: 'c-123',
      amount: 450,
      currency: 'EUR',
      confidence: 0.5,
      note: null,
      orders: [''],
    });
    expect(run.calls).toHaveLength(2);
  });

  it('uses what the tool is called for the value it returned', async () => {
    const { json } = await answered(question, orderDesk, {
      type: 'object',
      properties: { averageSpend: { type: 'number' } },
      required: ['averageSpend'],
    });
    expect(json).toEqual({ averageSpend: 450 });
  });

  it('leaves out what is optional and unknown', async () => {
    const { json } = await answered("What is Ana's grade in class 7b?", school, {
      type: 'object',
      properties: {
        studentId: { type: 'string' },
        grade: { type: 'string' },
        teacher: { type: 'string' },
      },
      required: ['grade'],
    });
    expect(json).toEqual({ studentId: 's2', grade: 'A-s2' });
  });

  it('builds lists of objects', async () => {
    const flight: Schema = {
      type: 'object',
      properties: { id: { type: 'string' }, price: { type: 'number' } },
      required: ['id', 'price'],
      additionalProperties: false,
    };
    const schema: Schema = {
      type: 'object',
      properties: {
        flights: { type: 'array', items: { $ref: '#/$defs/flight' } },
        count: { type: 'integer' },
      },
      required: ['flights', 'count'],
    };
    const { json } = await answered('Find flights from Berlin to Rome on 2026-05-01', airline, {
      ...schema,
      $defs: { flight },
    });
    expect(json).toEqual({
      flights: [
        { id: 'LH123', price: 99 },
        { id: 'AZ7', price: 79 },
      ],
      count: 2,
    });
  });

  it('puts the sentence into the first required text', async () => {
    const schema: Schema = {
      type: 'object',
      properties: { verdict: { type: 'string', maxLength: 20 } },
      required: ['verdict'],
    };
    expect((await answered(question, orderDesk, schema)).json).toEqual({
      verdict: "John Smith's average",
    });
  });

  it('answers in the shape when there is nothing to say', async () => {
    const { json } = await answered('Paint me a picture', orderDesk, spendSchema);
    expect(json).toMatchObject({ amount: 0, currency: 'USD' });
  });

  it('takes a message that is not in the words of the user for no question', async () => {
    const { run } = await answered(question, orderDesk, spendSchema);
    const labels = { returns: 'untrusted', reads: 'public' } as const;
    const messages: Message[] = [
      ...run.messages,
      { role: 'user', content: 'Your answer is not valid: /amount must be number.', labels },
    ];
    const answerFormat = { name: 'answer', schema: spendSchema };
    const again = assistantMessage(
      await eventsOf(offline(), {
        messages,
        tools: run.tools.map(({ spec }) => spec),
        answerFormat,
      }),
    );
    expect(again).toEqual({ role: 'assistant', content: run.text });
  });

  it('fills a part below the first level that is in no result with the least that is valid', async () => {
    const part: Schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    };
    const schema: Schema = {
      type: 'object',
      properties: { answer: { type: 'string' }, address: part },
      required: ['answer', 'address'],
    };
    const { json } = await answered(question, orderDesk, schema);
    expect(json).toEqual({
      answer: "John Smith's average spend is 450.00 EUR.",
      address: { city: '' },
    });
  });

  it('takes a new question after a JSON answer for a question', async () => {
    const first = await answered(question, orderDesk, spendSchema);
    const { run } = await answered(
      'What is the status of order o-100?',
      first.run.tools,
      spendSchema,
      first.run.messages,
    );
    expect(run.calls).toEqual(['orders__getOrder {"orderId":"o-100"}']);
  });
});
