import type { Type } from '@nestjs/common';
import type { AnswerName, AnswerSchema } from './answers.js';
import { ChatController } from './chat.controller.js';
import { HealthController } from './health.controller.js';
import { OpenAiController } from './openai.controller.js';
import { ApprovalsController } from './approvals.controller.js';
import { PendingController } from './pending.controller.js';
import { QuestionsController } from './questions.controller.js';
import { SourcesController } from './sources.controller.js';
import { ViewAsController } from './view-as.controller.js';
import { PoliciesController } from './policies.controller.js';
import {
  AgUiController,
  AssistantController,
  DataStreamController,
  UiMessageController,
} from './protocols.controller.js';
import { AuditController } from './audit.controller.js';
import { ConversationsController } from './conversations.controller.js';
import { DirectivesController } from './directives.controller.js';
import { UsageController } from './usage.controller.js';
import * as bodies from './requests.dto.js';
import { RehearsalsController, RunsController } from './runs.controller.js';
import { ExplainController } from './explain.controller.js';
import { ToolsController } from './tools.controller.js';

/** An answer of a route: the media type and what is in it, or nothing. */
export interface RouteAnswer {
  readonly description: string;
  readonly type?: string;
  /** A list where the name stands in brackets, a text where there is none. */
  readonly of?: AnswerName | readonly [AnswerName];
}

/** A route as its document describes it. */
export interface Route {
  readonly summary: string;
  /** The answers by their status. */
  readonly answers: Readonly<Record<number, RouteAnswer>>;
  /** The statuses of errors beside those that every route has. */
  readonly errors?: readonly number[];
  readonly headers?: readonly string[];
  /** The body, where it has no class. */
  readonly body?: AnswerSchema;
  /** The form of its errors. @default 'Error' */
  readonly error?: AnswerName;
}

/** A controller with a description of each of its routes. */
export interface DescribedController {
  readonly type: Type;
  readonly tag: string;
  readonly routes: ReadonlyMap<string, Route>;
  /** Asks no one who they are. @default false */
  readonly isOpen?: boolean;
}

/** The public methods of a controller: one without a description does not compile. */
type Handlers<Controller> = {
  readonly [
    Name in keyof Controller as Controller[Name] extends (...args: never[]) => unknown
      ? Name
      : never
  ]: Route;
};

function described<Controller extends object>(
  type: Type<Controller>,
  tag: string,
  routes: Handlers<Controller>,
  isOpen = false,
): DescribedController {
  return { type, tag, routes: new Map(Object.entries<Route>({ ...routes })), isOpen };
}

/** The bodies and queries whose classes have their rules. */
export const BODIES: readonly Type[] = Object.values(bodies);

const JSON_TYPE = 'application/json';
const KEY = ['idempotency-key'];
const READ_ON = ['last-event-id'];

function one(of: AnswerName, description = 'The answer.'): RouteAnswer {
  return { description, type: JSON_TYPE, of };
}

function listOf(of: AnswerName): RouteAnswer {
  return {
    description:
      'A page. Where there is a next one, the header Link has its address as rel="next".',
    type: JSON_TYPE,
    of: [of],
  };
}

const EVENTS: RouteAnswer = {
  description:
    'Server-sent events: each has a LoopEvent as JSON in its data, and its sequence in its id.',
  type: 'text/event-stream',
};
const NO_MORE: RouteAnswer = { description: 'There is no more to read.' };
const DONE: RouteAnswer = { description: 'It is done.' };

function stream(protocol: string, type = 'text/event-stream'): RouteAnswer {
  return { description: `The stream of ${protocol}.`, type };
}

function bodyOf(protocol: string, required: readonly string[]): AnswerSchema {
  return {
    type: 'object',
    description: `The request of a client of ${protocol}.`,
    required,
    additionalProperties: true,
  };
}

/** Every route of this module. */
export const CONTROLLERS: readonly DescribedController[] = [
  described(ChatController, 'chat', {
    chat: {
      summary: 'Asks, and streams the events of the run.',
      answers: { 200: EVENTS },
      errors: [403, 409, 502],
      headers: KEY,
    },
    stream: {
      summary: 'Asks for an EventSource, which reads on by Last-Event-ID.',
      answers: { 200: EVENTS, 204: NO_MORE },
      errors: [400, 403, 404, 405, 409, 410],
      headers: READ_ON,
    },
    answer: {
      summary: 'Asks, and returns one result.',
      answers: { 200: one('Result') },
      errors: [403, 409, 502],
      headers: KEY,
    },
  }),
  described(UiMessageController, 'chat protocols', {
    chat: {
      summary: 'Answers a chat of AI SDK 7.',
      answers: { 200: stream('UI messages of AI SDK 7') },
      errors: [403, 404, 409],
      headers: KEY,
      body: bodyOf('AI SDK 7', ['id', 'messages']),
    },
    resume: {
      summary: 'Reads the answer that is under way in a chat again, from its beginning.',
      answers: { 200: stream('UI messages of AI SDK 7'), 204: NO_MORE },
      errors: [405],
    },
  }),
  described(AgUiController, 'chat protocols', {
    run: {
      summary: 'Answers a client of AG-UI 1.0.',
      answers: { 200: stream('AG-UI 1.0') },
      errors: [403, 404, 409],
      body: bodyOf('AG-UI', ['threadId', 'runId', 'messages']),
    },
    connect: {
      summary: 'Reads the answer that is under way in a thread again, from its beginning.',
      answers: { 200: stream('AG-UI 1.0'), 204: NO_MORE },
      body: bodyOf('AG-UI', ['threadId', 'runId', 'messages']),
    },
  }),
  described(AssistantController, 'chat protocols', {
    command: {
      summary: 'Answers a client of the assistant transport of assistant-stream.',
      answers: { 200: stream('the assistant transport') },
      errors: [403, 404, 409],
      body: bodyOf('the assistant transport', ['commands']),
    },
    state: {
      summary: 'Shows the state that a client had when it asked what is answered in its thread.',
      answers: { 200: one('AssistantState'), 204: NO_MORE },
      body: bodyOf('the assistant transport', ['threadId']),
    },
    resume: {
      summary: 'Reads the answer that is under way in a thread again, from its beginning.',
      answers: { 200: stream('the assistant transport'), 204: NO_MORE },
      body: bodyOf('the assistant transport', ['commands']),
    },
  }),
  described(DataStreamController, 'chat protocols', {
    chat: {
      summary: 'Answers a client of the data stream of assistant-stream.',
      answers: { 200: stream('the data stream', 'text/plain') },
      errors: [403, 404, 409],
      body: bodyOf('the data stream', ['messages']),
    },
  }),
  described(OpenAiController, 'chat protocols', {
    models: {
      summary: 'Lists the loop as a model of OpenAI’s API.',
      answers: { 200: one('Models') },
      error: 'OpenAiError',
    },
    model: {
      summary: 'Shows the loop as a model of OpenAI’s API.',
      answers: { 200: one('Model') },
      errors: [404],
      error: 'OpenAiError',
    },
    complete: {
      summary: 'Answers a chat completion: as a stream of chunks where "stream" is true.',
      answers: { 200: one('ChatCompletion') },
      errors: [403, 404, 409, 502],
      headers: KEY,
      body: bodyOf('chat completions', ['model', 'messages']),
      error: 'OpenAiError',
    },
  }),
  described(RunsController, 'runs', {
    start: {
      summary: 'Queues a durable run.',
      answers: { 202: one('Run', 'It is queued. Location has its address.') },
      errors: [403, 409],
      headers: KEY,
    },
    list: {
      summary: 'Lists runs, the newest first.',
      answers: { 200: listOf('Run') },
      errors: [400, 403],
    },
    get: { summary: 'Shows a run.', answers: { 200: one('Run') }, errors: [404] },
    watch: {
      summary: 'Streams the events of a run behind a sequence.',
      answers: { 200: EVENTS, 204: NO_MORE },
      errors: [400, 404, 405, 409, 410],
      headers: READ_ON,
    },
    resume: {
      summary: 'Resumes a run that was answered, and streams its events.',
      answers: { 200: EVENTS },
      errors: [404, 409],
    },
    answer: {
      summary: 'Answers what a run asked.',
      answers: { 200: one('Answered') },
      errors: [403, 404, 409],
    },
    resumeToAnswer: {
      summary: 'Resumes a run that was answered, and returns its result.',
      answers: { 200: one('Result') },
      errors: [404, 409, 502],
    },
    cancel: {
      summary: 'Ends a run.',
      answers: { 202: one('Run', 'It is ending.') },
      errors: [404, 409],
    },
    undo: {
      summary: 'Undoes what an ended run did, as far as that can be undone.',
      answers: { 200: one('Undoing') },
      errors: [403, 404, 409],
    },
    rehearse: {
      summary: 'Rehearses a run with another model, another policy or both.',
      answers: {
        200: one(
          'RehearsedRun',
          'The comparison; with a model, the id of a run that is compared as it comes.',
        ),
      },
      errors: [403, 404],
    },
    rehearsal: {
      summary: 'Compares a rehearsal with its run, or a run with what a policy would have decided.',
      answers: { 200: one('RehearsedRun') },
      errors: [400, 403, 404],
    },
    fork: {
      summary: 'Queues a run that continues from a step of this one.',
      answers: { 202: one('Run', 'It is queued. Location has its address.') },
      errors: [403, 404, 409],
      headers: KEY,
    },
  }),
  described(RehearsalsController, 'runs', {
    choices: {
      summary: 'Lists the models and policies with which runs can be rehearsed.',
      answers: { 200: one('RehearsalChoices') },
      errors: [403],
    },
  }),
  described(ApprovalsController, 'pending', {
    list: {
      summary: 'Lists the calls that wait for a yes or no.',
      answers: { 200: listOf('Approval') },
      errors: [400, 403],
    },
    groups: {
      summary:
        'Lists the same calls by their kind and step, of which one decision can be taken. A page is one of calls: a group that stands on two pages is on both.',
      answers: { 200: { ...one('ApprovalGroup'), of: ['ApprovalGroup'] } },
      errors: [400, 403],
    },
    get: {
      summary: 'Shows an approval, with its answer once there is one.',
      answers: { 200: one('Approval') },
      errors: [403, 404],
    },
    decide: {
      summary: 'Says yes or no to a call.',
      answers: { 200: one('Approval') },
      errors: [403, 404, 409],
    },
  }),
  described(QuestionsController, 'pending', {
    list: {
      summary: 'Lists the questions that calls ask people.',
      answers: { 200: listOf('Question') },
      errors: [400, 403],
    },
    answer: {
      summary: 'Answers a question.',
      answers: { 200: one('Answered') },
      errors: [403, 404, 409],
    },
  }),
  described(PendingController, 'pending', {
    list: {
      summary: 'Lists everything that waits for the caller.',
      answers: { 200: listOf('Waiting') },
      errors: [400, 403],
    },
  }),
  described(ToolsController, 'tools', {
    list: {
      summary: 'Lists the tools that the caller’s model may call.',
      answers: { 200: { ...one('Tool'), of: ['Tool'] } },
    },
    call: {
      summary: 'Calls a tool by hand. What is wrong with the call is in its record.',
      answers: {
        200: one('MadeCall'),
        202: one('MadeCall', 'It waits for a person. Location has the address of its run.'),
      },
      errors: [403, 404, 409],
      headers: KEY,
    },
  }),
  described(ExplainController, 'operators', {
    explain: {
      summary:
        'Explains why a tool is offered or not, or with runId and toolCallId what became of a call.',
      answers: { 200: one('ExplainedTool', 'The reasons; of a call it is an ExplainedCall.') },
      errors: [400, 403, 404],
    },
  }),
  described(ConversationsController, 'conversations', {
    list: {
      summary: 'Lists the caller’s conversations.',
      answers: { 200: listOf('Conversation') },
      errors: [400],
    },
    read: {
      summary: 'Reads a conversation from a message on.',
      answers: { 200: one('ConversationPage') },
      errors: [400, 404],
    },
    delete: { summary: 'Deletes a conversation.', answers: { 204: DONE }, errors: [404] },
  }),
  described(DirectivesController, 'directives', {
    list: {
      summary: 'Lists effects that take place later.',
      answers: { 200: listOf('Directive') },
      errors: [400],
    },
    get: { summary: 'Shows a directive.', answers: { 200: one('Directive') }, errors: [404] },
    cancel: {
      summary: 'Cancels a directive, or begins to undo its effect.',
      answers: { 200: one('Directive') },
      errors: [403, 404, 409],
    },
    redrive: {
      summary: 'Tells what a person found of an effect whose outcome is unknown.',
      answers: { 200: one('Directive') },
      errors: [403, 404, 409],
    },
  }),
  described(UsageController, 'usage', {
    report: {
      summary: 'Reports what was used.',
      answers: { 200: one('UsageReport') },
      errors: [400, 403],
    },
  }),
  described(PoliciesController, 'operators', {
    versions: {
      summary: 'Lists the versions of the tenant’s policies, the newest first.',
      answers: { 200: listOf('PolicyVersion') },
      errors: [400, 403],
    },
    put: {
      summary: 'Puts policies in force.',
      answers: { 201: one('PolicyVersion') },
      errors: [403, 409],
    },
    diff: {
      summary: 'Compares two versions.',
      answers: { 200: { ...one('PolicyDifference'), of: ['PolicyDifference'] } },
      errors: [400, 403, 404],
    },
    stops: {
      summary: 'Lists what is stopped.',
      answers: { 200: { ...one('PolicyStop'), of: ['PolicyStop'] } },
      errors: [403],
    },
    stop: {
      summary: 'Stops a tool, a source or everything of the tenant.',
      answers: { 201: one('PolicyStop') },
      errors: [403, 409],
    },
    release: { summary: 'Releases what was stopped.', answers: { 204: DONE }, errors: [403, 404] },
    replay: {
      summary: 'Decides again about the calls of stored runs, by other policies.',
      answers: { 200: one('PolicyReplay') },
      errors: [403, 404],
    },
    get: {
      summary: 'Shows a version.',
      answers: { 200: one('PolicyVersion') },
      errors: [400, 403, 404],
    },
    rollback: {
      summary: 'Puts the policies of an earlier version in force.',
      answers: { 201: one('PolicyVersion') },
      errors: [403, 404, 409],
    },
  }),
  described(SourcesController, 'operators', {
    list: {
      summary: 'Lists the sources of tools, and what is not well with tools.',
      answers: { 200: one('SourceReport') },
      errors: [403],
    },
    refresh: {
      summary: 'Asks a source for its tools now.',
      answers: { 200: { ...one('Source'), of: ['Source'] } },
      errors: [400, 403],
    },
  }),
  described(ViewAsController, 'operators', {
    view: {
      summary:
        'Shows the tools, runs and requests of another person as that person sees them, and why.',
      answers: { 200: one('ViewedActor') },
      errors: [403, 404],
    },
  }),
  described(AuditController, 'operators', {
    lines: {
      summary: 'Streams the audit of the tenant, from a sequence on.',
      answers: { 200: { description: 'One entry in each line.', type: 'application/jsonl' } },
      errors: [403, 404],
    },
    head: {
      summary: 'Shows the signed head of the audit.',
      answers: { 200: one('AuditHead') },
      errors: [403, 404],
    },
  }),
  described(
    HealthController,
    'health',
    {
      health: { summary: 'Answers while the process lives.', answers: { 200: one('Health') } },
      ready: {
        summary: 'Tells a load balancer whether to send requests.',
        answers: { 200: one('Readiness'), 503: one('Readiness', 'Not now.') },
      },
    },
    true,
  ),
];
