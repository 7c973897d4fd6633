/** The prompts, resources and completions that the suite reads by name. */
import { Injectable } from '@nestjs/common';
import { attach, ToolContext, ToolParam, ToolProvider, type ToolCallContext } from '@toolloop/core';
import type { Question } from '@toolloop/core/contracts';
import { LlmCompletion, LlmPrompt, LlmResource, type PromptTurn } from '@toolloop/mcp';
import { PNG } from './tools.js';

@Injectable()
@ToolProvider({ namespace: 'offers' })
export class TestOffers {
  @LlmPrompt({ as: 'test_simple_prompt', description: 'A prompt.' })
  simple(): string {
    return 'This is a simple prompt for testing.';
  }

  @LlmPrompt({ as: 'test_prompt_with_arguments', description: 'A prompt with arguments.' })
  withArguments(
    @ToolParam('arg1', { description: 'First test argument' }) first: string,
    @ToolParam('arg2', { description: 'Second test argument' }) second: string,
  ): string {
    return `Prompt with arguments: arg1='${first}', arg2='${second}'`;
  }

  @LlmCompletion({ of: 'test_prompt_with_arguments', argument: 'arg1' })
  firstArguments(@ToolParam('value', { description: 'What was typed' }) value: string): string[] {
    return ['paris', 'park', 'party'].filter((word) => word.startsWith(value));
  }

  @LlmPrompt({ as: 'test_prompt_with_embedded_resource', description: 'A prompt with a resource.' })
  withResource(
    @ToolParam('resourceUri', { description: 'The address of the resource' }) uri: string,
  ): PromptTurn[] {
    const resource = {
      uri,
      mimeType: 'text/plain',
      text: 'Embedded resource content for testing.',
    };
    return [
      { role: 'user', content: { type: 'resource', resource } },
      { role: 'user', content: 'Please process the embedded resource above.' },
    ];
  }

  @LlmPrompt({ as: 'test_prompt_with_image', description: 'A prompt with a picture.' })
  withImage(): unknown {
    return attach([{ role: 'user', content: 'Please analyze the image.' }], {
      type: 'image',
      data: PNG,
      mediaType: 'image/png',
    });
  }

  @LlmPrompt({
    as: 'test_input_required_result_prompt',
    description: 'A prompt that asks the user.',
  })
  async asking(@ToolContext() context: ToolCallContext): Promise<string> {
    const schema: Question['schema'] = {
      type: 'object',
      properties: { context: { type: 'string' } },
      required: ['context'],
    };
    const answer = await context.ask({
      key: 'user_context',
      question: 'What context should the prompt use?',
      schema,
    });
    return `Use this context: ${JSON.stringify(answer)}`;
  }

  @LlmResource({
    uri: 'test://static-text',
    as: 'static-text',
    description: 'A text.',
    reveal: 'all',
  })
  text(): string {
    return 'This is the content of the static text resource.';
  }

  @LlmResource({
    uri: 'test://static-binary',
    as: 'static-binary',
    description: 'A picture.',
    mimeType: 'image/png',
    reveal: 'all',
  })
  binary(): unknown {
    return attach(null, { type: 'image', data: PNG, mediaType: 'image/png' });
  }

  @LlmResource({
    uri: 'test://watched-resource',
    as: 'watched',
    description: 'A text that may change.',
    reveal: 'all',
  })
  watched(): string {
    return 'Watched.';
  }

  @LlmResource({
    uri: 'test://template/{id}/data',
    as: 'template',
    description: 'Data by its id.',
    mimeType: 'application/json',
    reveal: 'all',
  })
  data(@ToolParam('id', { description: 'The id' }) id: string): object {
    return { id, templateTest: true, data: `Data for ID: ${id}` };
  }
}
