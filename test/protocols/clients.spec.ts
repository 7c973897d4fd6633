import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { closeApps } from '../../libs/http/test/served-app.js';
import { clients, PIECES, ScenarioModel, serveScenarios, type Told } from './scenarios.js';

let model: ScenarioModel;
let openAi: Told;
let eventSource: Told;

beforeAll(async () => {
  model = new ScenarioModel();
  const { url } = await serveScenarios(model);
  const { connect } = await clients('shared');
  connect(url, 'notes');
  const [{ openAiPlays }, { eventSourcePlays }] = [
    await clients('openai'),
    await clients('event-source'),
  ];
  [openAi, eventSource] = await Promise.all([openAiPlays(), eventSourcePlays()]);
});
afterAll(closeApps);

const READ = {
  text: 'It is note n-1.',
  calls: [['notes__read', 'succeeded', 'note n-1']],
  injected: [],
  end: 'stop',
};
const INJECTED = {
  text: 'Its title is First.',
  calls: [
    ['desk__open', 'succeeded', { id: 'p-1' }],
    ['page_p-1_title', 'succeeded', 'First'],
  ],
  injected: ['page_p-1_title'],
  end: 'stop',
};
const FAILED = {
  text: 'The desk is closed.',
  calls: [['desk__broken', 'failed', 'The desk is closed.']],
  injected: [],
  end: 'stop',
};
const SETTLED = { text: 'That is settled.', injected: [], end: 'stop' };
const APPROVED = { ...SETTLED, calls: [['notes__delete', 'succeeded', 'deleted n-1']] };
const DENIED = {
  ...SETTLED,
  calls: [['notes__delete', 'denied', 'A person denied this call. They said: Keep it.']],
};
const SIZE = {
  text: 'You have said it.',
  calls: [['desk__size', 'succeeded', 'size "M"']],
  injected: [],
  end: 'stop',
};
const PICKED = {
  text: 'You have picked one.',
  calls: [['screen__pick', 'succeeded', 'red']],
  injected: [],
  end: 'stop',
};
const HELLO = { text: 'Hello there.', calls: [], injected: [], end: 'stop' };

describe('a client of others', () => {
  it('understands everything with the client of OpenAI: approvals, questions and its own tools are calls for it to answer', () => {
    expect(openAi).toEqual({
      text: HELLO,
      call: READ,
      injected: INJECTED,
      failedCall: FAILED,
      failedRun: { code: 'model_error', message: 'The model could not answer.' },
      approved: { asked: 'approve_notes__delete', end: 'tool_calls', done: APPROVED },
      denied: { asked: 'approve_notes__delete', end: 'tool_calls', done: DENIED },
      question: { asked: 'answer_question', end: 'tool_calls', done: SIZE },
      clientTool: { asked: 'screen__pick', end: 'tool_calls', done: PICKED },
      abort: { ended: 'APIUserAbortError', hasAll: false },
    });
  });

  it('understands everything with an EventSource, and reads on by itself where its connection breaks, each event once', () => {
    expect(eventSource).toEqual({
      text: HELLO,
      call: READ,
      injected: INJECTED,
      failedCall: FAILED,
      failedRun: { text: '', calls: [], injected: [], end: 'error: The model could not answer.' },
      approved: { asked: 'waiting', done: APPROVED },
      denied: { asked: 'waiting', done: DENIED },
      question: { asked: 'waiting', done: SIZE },
      clientTool: { asked: 'waiting', done: PICKED },
      abort: { before: 'running' },
      reconnect: { text: PIECES.join(''), connections: 2, isEachOnce: true },
    });
  });

  it('has each model asked once for each step, and ends the run that it leaves', () => {
    expect(model.asked.filter((question) => question.startsWith('Count')).toSorted()).toEqual([
      'Count for event-source',
      'Count for openai',
      'Count once',
    ]);
    expect(model.asked).toHaveLength(2 * (1 + 2 + 3 + 2 + 1 + 4 * 2) + 3);
    expect(model.aborted).toBe(2);
  });
});
