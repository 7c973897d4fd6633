/**
 * The tools that the suite calls by name, as decorated methods. Each does what its scenario asks
 * for, and nothing else.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  attach,
  LlmTool,
  ToolContext,
  ToolError,
  ToolParam,
  ToolProvider,
  type ToolCallContext,
} from '@toolloop/core';
import type { Question } from '@toolloop/core/contracts';
import { clientModel, clientRoots } from '@toolloop/mcp';
import type { JsonValue } from '@toolloop/protocol';

/** A picture of one pixel. */
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
/** A sound of no length. */
const WAV = Buffer.from('UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=', 'base64');
const STEP_MS = 50;

const READ = { effect: 'read_only', reveal: 'all' } as const;

const ofText = (name: string): Question['schema'] => ({
  type: 'object',
  properties: { [name]: { type: 'string' } },
  required: [name],
});
const NAME: Question = { key: 'user_name', question: 'What is your name?', schema: ofText('name') };
const CONFIRM: Question = {
  key: 'confirm',
  question: 'Please confirm',
  schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
};

@Injectable()
@ToolProvider({ namespace: 'content' })
export class ContentTools {
  @LlmTool({ description: 'Returns a text.', ...READ })
  test_simple_text(): string {
    return 'This is a simple text response for testing.';
  }

  @LlmTool({ description: 'Returns a picture.', ...READ })
  test_image_content(): unknown {
    return attach(null, { type: 'image', data: PNG, mediaType: 'image/png' });
  }

  @LlmTool({ description: 'Returns a sound.', ...READ })
  test_audio_content(): unknown {
    return attach(null, { type: 'file', data: WAV, mediaType: 'audio/wav', name: 'silence.wav' });
  }

  @LlmTool({ description: 'Returns a resource.', ...READ })
  test_embedded_resource(): unknown {
    const data = Buffer.from('This is an embedded resource content.');
    return attach(null, { type: 'file', data, mediaType: 'text/plain', name: 'embedded.txt' });
  }

  @LlmTool({ description: 'Returns a text, a picture and a resource.', ...READ })
  test_multiple_content_types(): unknown {
    const json = Buffer.from(JSON.stringify({ test: 'data', value: 123 }));
    return attach(
      'Multiple content types test:',
      { type: 'image', data: PNG, mediaType: 'image/png' },
      { type: 'file', data: json, mediaType: 'application/json', name: 'mixed.json' },
    );
  }

  @LlmTool({ description: 'Fails.', ...READ })
  test_error_handling(): never {
    throw new ToolError('This tool intentionally returns an error for testing');
  }

  @LlmTool({ description: 'Says how far it is.', ...READ })
  async test_tool_with_progress(@ToolContext() context: ToolCallContext): Promise<string> {
    for (const progress of [0, 50, 100]) {
      context.progress({ progress, total: 100 });
      await pause(STEP_MS);
    }
    return 'Done.';
  }

  @LlmTool({ description: 'Logs what it does.', ...READ })
  async test_tool_with_logging(@ToolContext() context: ToolCallContext): Promise<string> {
    for (const message of [
      'Tool execution started',
      'Tool processing data',
      'Tool execution completed',
    ]) {
      context.progress({ level: 'info', message });
      await pause(STEP_MS);
    }
    return 'Done.';
  }

  @LlmTool({ description: 'Logs, which a client hears of that has asked for it.', ...READ })
  test_logging_tool(@ToolContext() context: ToolCallContext): string {
    context.progress({ level: 'info', message: 'Logged.' });
    return 'Done.';
  }
}

@Injectable()
@ToolProvider({ namespace: 'asking' })
export class AskingTools {
  @LlmTool({ description: "Asks the client's model.", ...READ })
  async test_sampling(
    @ToolParam('prompt', { description: 'The words for the model' }) prompt: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    return `LLM response: ${textOf(await context.ask(clientModel({ key: 'sample', prompt, maxTokens: 100 })))}`;
  }

  @LlmTool({ description: 'Needs a client with a model.', ...READ })
  test_missing_capability(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask(clientModel({ key: 'sample', prompt: 'Say something.', maxTokens: 10 }));
  }

  @LlmTool({ description: 'Asks the user for a name and an address.', ...READ })
  async test_elicitation(
    @ToolParam('message', { description: 'The words for the user' }) message: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const properties = {
      username: { type: 'string', description: "User's response" },
      email: { type: 'string', description: "User's email address" },
    } as const;
    const answer = await context.ask({
      key: 'user',
      question: message,
      schema: { type: 'object', properties, required: ['username', 'email'] },
    });
    return `User response: action: accept, content: ${JSON.stringify(answer)}`;
  }

  @LlmTool({ description: 'Asks while it answers.', ...READ })
  test_streaming_elicitation(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask(CONFIRM);
  }

  @LlmTool({ description: 'Asks for values that have defaults.', ...READ })
  async test_elicitation_sep1034_defaults(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const properties = {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    } satisfies Question['schema']['properties'];
    const answer = await context.ask({
      key: 'profile',
      question: 'Your profile?',
      schema: { type: 'object', properties },
    });
    return `Elicitation completed: action=accept, content=${JSON.stringify(answer)}`;
  }

  @LlmTool({ description: 'Asks for choices of every kind.', ...READ })
  async test_elicitation_sep1330_enums(@ToolContext() context: ToolCallContext): Promise<string> {
    const options = ['option1', 'option2', 'option3'];
    const titled = ['First', 'Second', 'Third'].map((title, index) => ({
      const: `value${index + 1}`,
      title: `${title} Option`,
    }));
    const properties = {
      untitledSingle: { type: 'string', enum: options },
      titledSingle: { type: 'string', oneOf: titled },
      legacyEnum: Object.assign(
        { type: 'string' as const, enum: ['opt1', 'opt2', 'opt3'] },
        { enumNames: ['Option One', 'Option Two', 'Option Three'] },
      ),
      untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
      titledMulti: { type: 'array', items: { anyOf: titled } },
    } satisfies Question['schema']['properties'];
    const answer = await context.ask({
      key: 'choices',
      question: 'Your choices?',
      schema: { type: 'object', properties },
    });
    return `Elicitation completed: action=accept, content=${JSON.stringify(answer)}`;
  }
}

/** Tools whose calls take several rounds: each question is an `inputRequest` of the protocol. */
@Injectable()
@ToolProvider({ namespace: 'rounds' })
export class RoundsTools {
  @LlmTool({ description: 'Greets the user.', ...READ })
  async test_input_required_result_elicitation(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    return `Hello, ${nameIn(await context.ask(NAME))}!`;
  }

  @LlmTool({ description: "Asks the client's model for a capital.", ...READ })
  test_input_required_result_sampling(@ToolContext() context: ToolCallContext): Promise<JsonValue> {
    return context.ask(
      clientModel({
        key: 'capital_question',
        prompt: 'What is the capital of France?',
        maxTokens: 100,
      }),
    );
  }

  @LlmTool({ description: 'Asks for the roots of the client.', ...READ })
  test_input_required_result_list_roots(
    @ToolContext() context: ToolCallContext,
  ): Promise<JsonValue> {
    return context.ask(clientRoots({ key: 'client_roots' }));
  }

  @LlmTool({ description: 'Asks for a confirmation.', ...READ })
  async test_input_required_result_request_state(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    await context.ask(CONFIRM);
    return 'state-ok';
  }

  @LlmTool({
    description: 'Asks for a confirmation whose state a client may have changed.',
    ...READ,
  })
  async test_input_required_result_tampered_state(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    await context.ask(CONFIRM);
    return 'state-ok';
  }

  @LlmTool({ description: 'Asks for three things at once.', ...READ })
  async test_input_required_result_multiple_inputs(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const [name, greeting, roots] = await Promise.all([
      context.ask(NAME),
      context.ask(clientModel({ key: 'greeting', prompt: 'Generate a greeting', maxTokens: 50 })),
      context.ask(clientRoots({ key: 'client_roots' })),
    ]);
    return `${textOf(greeting)} ${nameIn(name)} ${textOf(roots)}`;
  }

  @LlmTool({ description: 'Asks for two things, one after the other.', ...READ })
  async test_input_required_result_multi_round(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const name = await context.ask({
      key: 'step1',
      question: 'Step 1: What is your name?',
      schema: ofText('name'),
    });
    const color = await context.ask({
      key: 'step2',
      question: 'Step 2: What is your favorite color?',
      schema: ofText('color'),
    });
    return JSON.stringify([name, color]);
  }

  @LlmTool({ description: 'Asks for what the client can give.', ...READ })
  async test_input_required_result_capabilities(
    @ToolContext() context: ToolCallContext,
  ): Promise<string> {
    const asked = [
      context.ask(NAME),
      context.ask(clientModel({ key: 'greeting', prompt: 'Generate a greeting', maxTokens: 50 })),
    ];
    return JSON.stringify(await Promise.all(asked));
  }
}

function nameIn(answer: JsonValue): string {
  return typeof answer === 'object' && answer !== null && 'name' in answer
    ? textOf(answer.name)
    : '';
}

function textOf(answer: JsonValue | undefined): string {
  return typeof answer === 'string' ? answer : JSON.stringify(answer);
}
