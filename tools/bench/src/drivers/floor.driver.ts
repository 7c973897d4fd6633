import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request,
  type RequestOptions,
} from 'node:http';
import { Agent as SecureAgent, request as secureRequest } from 'node:https';
import {
  INSTRUCTIONS,
  MODEL,
  type NumberedTask,
  type Outcome,
  promptOf,
  type TaskTool,
} from '../task.js';
import type { Driver } from './driver.js';
import { argumentsFrom } from './from-arguments.js';
import { deltaOf } from './from-chunk.js';

export const FLOOR = 'hand-written on node:http';

/**
 * A driver with the least possible work: one keep-alive connection; a body put together from parts
 * that are encoded once, the tools and every message; a network read decoded as one batch; one
 * JSON.parse per payload; one promise per answer. It checks nothing and forgives nothing.
 */
export function floorDriver(tools: readonly TaskTool[]): Driver {
  const agents = {
    http: new Agent({ keepAlive: true }),
    https: new SecureAgent({ keepAlive: true }),
  };
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const head = `{"model":${JSON.stringify(MODEL)},"stream":true,"stream_options":{"include_usage":true},"tools":${encodeTools(tools)},"messages":[`;
  const instructions = JSON.stringify({ role: 'system', content: INSTRUCTIONS });
  const run = async (task: NumberedTask, baseURL: string): Promise<Outcome> => {
    const messages = [instructions, JSON.stringify({ role: 'user', content: promptOf(task) })];
    let bytesSent = 0;
    for (let toolCalls = 0; ; toolCalls += 1) {
      const body = `${head}${messages.join(',')}]}`;
      bytesSent += Buffer.byteLength(body);
      const answer = await post(`${baseURL}/chat/completions`, body, agents);
      if (answer.name === '') return { text: answer.text, toolCalls, bytesSent };
      const args = argumentsFrom(answer.arguments);
      const result = JSON.stringify(byName.get(answer.name)?.execute(args));
      const call = {
        id: answer.id,
        type: 'function',
        function: { name: answer.name, arguments: answer.arguments },
      };
      messages.push(
        JSON.stringify({ role: 'assistant', content: null, tool_calls: [call] }),
        JSON.stringify({ role: 'tool', tool_call_id: answer.id, content: result }),
      );
    }
  };
  return {
    name: FLOOR,
    speed: 4,
    run,
    close: () => [agents.http, agents.https].forEach((agent) => agent.destroy()),
  };
}

/** The `tools` of a request, as JSON text. */
function encodeTools(tools: readonly TaskTool[]): string {
  return JSON.stringify(
    tools.map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    })),
  );
}

class Answer {
  text = '';
  id = '';
  name = '';
  arguments = '';
  private rest = '';

  take(text: string): void {
    const events = (this.rest + text).split('\n\n');
    this.rest = events.pop() ?? '';
    for (const event of events) if (event !== 'data: [DONE]') this.takePayload(event.slice(6));
  }

  private takePayload(payload: string): void {
    const delta = deltaOf(JSON.parse(payload));
    if (delta?.content) this.text += delta.content;
    const call = delta?.tool_calls?.[0];
    if (!call) return;
    this.id ||= call.id ?? '';
    this.name ||= call.function.name ?? '';
    this.arguments += call.function.arguments;
  }
}

interface Agents {
  readonly http: Agent;
  readonly https: SecureAgent;
}

function post(url: string, body: string, agents: Agents): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      authorization: 'Bearer none',
      accept: 'text/event-stream',
    };
    const sent = open(url, { method: 'POST', headers }, agents, (response) => {
      const answer = new Answer();
      response.setEncoding('utf8');
      response.on('data', (text: string) => answer.take(text));
      response.on('end', () => resolve(answer));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

function open(
  url: string,
  options: RequestOptions,
  { http, https }: Agents,
  onResponse: (response: IncomingMessage) => void,
): ClientRequest {
  if (url.startsWith('https:')) return secureRequest(url, { ...options, agent: https }, onResponse);
  return request(url, { ...options, agent: http }, onResponse);
}
