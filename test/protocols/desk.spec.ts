import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { closeDesks, type ServedDesk } from '../demo/served-desk.js';
import { briefly, DESK_ANSWERS, mailsOf, serveDesk } from './desk-answers.js';
import { clients, PIECES, type Told } from './scenarios.js';

let desk: ServedDesk;
let openAi: Told;
let eventSource: Told;

beforeAll(async () => {
  desk = await serveDesk();
  const { connect } = await clients('shared');
  connect(desk.url, 'desk');
  const [{ openAiPlays }, { eventSourcePlays }] = [
    await clients('openai'),
    await clients('event-source'),
  ];
  [openAi, eventSource] = await Promise.all([openAiPlays(), eventSourcePlays()]);
});
afterAll(closeDesks);

/** Both show behind an answer what follows it. */
const MAILED = { ...DESK_ANSWERS.approved, calls: ['orders__sendReceipt'] };
const ANSWERS = { ...DESK_ANSWERS, approved: MAILED, denied: MAILED };

describe('a client of others, against the demo,', () => {
  it('understands everything with the client of OpenAI, which has no way to read on', () => {
    const { failedRun, ...answers } = briefly(openAi);
    expect({ ...answers, failedRun: ANSWERS.failedRun }).toEqual({
      ...ANSWERS,
      abort: { ended: 'APIUserAbortError', hasAll: false },
    });
    expect(failedRun).toEqual({ code: 'model_error', message: 'The model could not answer.' });
  });

  it('understands everything with an EventSource, and reads on in the middle with every event once', () => {
    expect(briefly(eventSource)).toEqual({
      ...ANSWERS,
      abort: { before: 'running' },
      reconnect: { text: PIECES.join(''), connections: 2, isEachOnce: true },
    });
  });

  it('has a receipt mailed for each yes, and for no other answer', () => {
    expect(mailsOf(desk)).toBe(2);
  });
});
