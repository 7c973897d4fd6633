import { describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  Headers,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Redirect,
  Req,
  Sse,
  StreamableFile,
} from '@nestjs/common';
import { LlmTool, ToolProvider } from '@toolloop/core';
import { IsString } from 'class-validator';
import { findingsOf } from './application.js';

const READ = { description: 'Reads.', effect: 'read_only', reveal: 'all' } as const;

class RenameOrder {
  @IsString()
  name!: string;
}

describe('an application with routes that are tools', () => {
  @Controller('odd/:tenantId')
  class OddController {
    @Get('a')
    @LlmTool(READ)
    request(@Req() request: object, @Headers('x') header: string): object {
      return { request, header };
    }

    @Sse('b')
    @LlmTool(READ)
    events(): never[] {
      return [];
    }

    @Get('c')
    @Redirect('/elsewhere')
    @LlmTool(READ)
    redirects(): void {}

    @Get('d')
    @LlmTool(READ)
    file(): StreamableFile {
      return new StreamableFile(Buffer.from('x'));
    }

    @Post('e/:name')
    @LlmTool(READ)
    twice(@Param('name') name: string, @Body() body: RenameOrder): object {
      return { name, body };
    }

    @Get('f')
    @LlmTool(READ)
    actor(@Query('actorId') actorId: string): string {
      return actorId;
    }

    @Get('g')
    @LlmTool(READ)
    noPath(@Param('id') id: string): string {
      return id;
    }

    @Post('h')
    @LlmTool(READ)
    untyped(@Body() body: object): object {
      return body;
    }

    @LlmTool(READ)
    noRoute(): void {}

    @Get('i')
    @LlmTool(READ)
    undecorated(id: string): string {
      return id;
    }
  }

  it('does not start where a route cannot be a tool, and says all of it at once', async () => {
    const findings = await findingsOf({ controllers: [OddController] });
    const of = (method: string) =>
      findings.filter(({ at }) => at === `OddController.${method}`).map(({ problem }) => problem);
    expect(of('request').toSorted()).toEqual([
      'It reads @Headers(), which a tool call does not have.',
      'It reads @Req(), which a tool call does not have.',
    ]);
    expect(of('events')).toEqual([
      'It answers by @Sse(), which is no result that a model can read.',
    ]);
    expect(of('redirects')).toEqual([
      'It answers by @Redirect(), which is no result that a model can read.',
    ]);
    expect(of('file')).toEqual([
      'It answers with a file, which is no result that a model can read.',
    ]);
    expect(of('twice')).toEqual([
      '"name" is in its body and in its path, and the arguments of a tool are one object.',
    ]);
    expect(of('actor')).toEqual(['The argument "actorId" has a reserved name.']);
    expect(of('noPath')).toEqual(['Its path "odd/:tenantId/g" has no parameter "id".']);
    expect(of('untyped')).toEqual(['The class of its body is not known at run time.']);
    expect(of('noRoute')).toContain('It is a method of a controller, and answers no route.');
    expect(of('undecorated')).toEqual(["Parameter 1 has no decorator of Nest's."]);
  });

  it('does not start where a tenant is asked for in a form that no run can fill', async () => {
    @ToolProvider({ namespace: 'numbers' })
    @Controller('numbers')
    class NumbersController {
      @Get()
      @LlmTool(READ)
      byTenant(@Query('tenantId', ParseIntPipe) tenantId: number): number {
        return tenantId;
      }
    }
    expect(await findingsOf({ controllers: [NumbersController] })).toMatchObject([
      { at: 'NumbersController.byTenant', problem: 'The argument "tenantId" has a reserved name.' },
    ]);
  });
});
