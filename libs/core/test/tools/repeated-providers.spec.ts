import { describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  type NestInterceptor,
  Post,
  type Provider,
  Scope,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { IsString } from 'class-validator';
import { map } from 'rxjs';
import {
  LlmTool,
  namespaceTools,
  omitTools,
  rawTool,
  type RawTool,
  ToolCatalog,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { findingsOf, start } from './application.js';

const read = { description: 'Reads.', effect: 'read_only', reveal: 'all' } as const;
const INDEX = Symbol('index');

@Injectable()
@ToolProvider({ namespace: 'search' })
class SearchTools {
  constructor(@Inject(INDEX) private readonly index: string) {}

  @LlmTool(read) find(): string {
    return `found in ${this.index}`;
  }
}

interface SearchOptions {
  readonly index: string;
  readonly more?: readonly Provider[];
}

@Module({})
class SearchModule {
  static register({ index, more = [] }: SearchOptions): DynamicModule {
    return {
      module: SearchModule,
      providers: [SearchTools, { provide: INDEX, useValue: index }, ...more],
    };
  }
}

/** A module class of that name. */
const moduleOf = (name: string, metadata: ModuleMetadata): Type => {
  class Named {
    readonly name = name;
  }
  Object.defineProperty(Named, 'name', { value: name });
  Module(metadata)(Named);
  return Named;
};

const BOOKS = { provide: INDEX, useValue: 'books' };
const FILMS = { provide: INDEX, useValue: 'films' };

async function answers(imports: ModuleMetadata['imports'] = []): Promise<Record<string, unknown>> {
  const app = await start({ imports });
  const loop: ToolLoopService = app.get(ToolLoopService);
  const catalog: ToolCatalog = app.get(ToolCatalog);
  const ids = catalog.list().map(({ declaredId }) => declaredId);
  const own = ids.filter((id) => id.includes('search') || id.includes('films'));
  const found = await Promise.all(
    own.map(async (tool) => [
      tool,
      (await loop.call({ tool, actor: { id: 'ada' }, tenant: 'acme' })).ui,
    ]),
  );
  await app.close();
  return Object.fromEntries(found) as Record<string, unknown>;
}

const remedy =
  "Provide it in one module that exports it; or give its tools another namespace in the module, [SearchTools, namespaceTools(SearchTools, '…')]; " +
  'or leave them out there, [SearchTools, omitTools(SearchTools)].';

describe('a dynamic module that is imported twice', () => {
  it('stops the start if its tools have the same ids, and says once what to do', async () => {
    const imports = [
      SearchModule.register({ index: 'books' }),
      SearchModule.register({ index: 'films' }),
    ];
    expect(await findingsOf({ imports })).toEqual([
      {
        at: 'SearchTools',
        problem:
          'SearchModule provides it 2 times, each with an instance of its own, and their tools have the same ids.',
        remedy,
      },
    ]);
  });

  it('has the tools of each under the namespace that it gives them', async () => {
    const imports = [
      SearchModule.register({ index: 'books' }),
      SearchModule.register({
        index: 'films',
        more: [namespaceTools(SearchTools, 'search_films')],
      }),
    ];
    expect(await answers(imports)).toEqual({
      search__find: 'found in books',
      search_films__find: 'found in films',
    });
  });

  it('may take the namespace from its own options', async () => {
    const named = namespaceTools(SearchTools, {
      inject: [INDEX],
      useFactory: (index: string) => `search_${index}`,
    });
    const imports = ['books', 'films', 'songs'].map((index) =>
      SearchModule.register({ index, more: [named] }),
    );
    expect(await answers(imports)).toEqual({
      search_books__find: 'found in books',
      search_films__find: 'found in films',
      search_songs__find: 'found in songs',
    });
  });

  it('has the tools of one alone if the other leaves them out', async () => {
    const imports = [
      SearchModule.register({ index: 'books', more: [omitTools(SearchTools)] }),
      SearchModule.register({ index: 'films' }),
    ];
    expect(await answers(imports)).toEqual({ search__find: 'found in films' });
  });
});

/** A raw tool whose instance Nest makes. */
@Injectable()
class Search {
  static readonly tool = { id: 'search__raw', ...read };
  constructor(@Inject(INDEX) private readonly index: string) {}

  call(): string {
    return `found in ${this.index}`;
  }
}

@Injectable({ scope: Scope.REQUEST })
class RequestSearch extends Search {}

@Module({})
class RawModule {
  static register(index: string): DynamicModule {
    return { module: RawModule, providers: [Search, { provide: INDEX, useValue: index }] };
  }
}

describe('a raw tool of a class that several modules provide', () => {
  const asked = [rawTool(Search)];
  const shared = { call: () => 'shared' };

  it.each<[string, ModuleMetadata, readonly RawTool[], string]>([
    [
      'two modules',
      {
        imports: [
          moduleOf('BooksModule', { providers: [Search, BOOKS] }),
          moduleOf('FilmsModule', { providers: [Search, FILMS] }),
        ],
      },
      asked,
      'BooksModule and FilmsModule provide it',
    ],
    [
      'a dynamic module that is imported twice',
      { imports: [RawModule.register('books'), RawModule.register('films')] },
      asked,
      'RawModule provides it 2 times',
    ],
    [
      'two modules, for each request',
      {
        imports: [
          moduleOf('BooksModule', { providers: [RequestSearch, BOOKS] }),
          moduleOf('FilmsModule', { providers: [RequestSearch, FILMS] }),
        ],
      },
      [rawTool(RequestSearch)],
      'BooksModule and FilmsModule provide it',
    ],
    [
      'two tokens of one module',
      {
        imports: [
          moduleOf('BooksModule', {
            providers: [
              BOOKS,
              { provide: 'one', useClass: Search },
              { provide: 'other', useFactory: () => new Search('other') },
            ],
          }),
        ],
      },
      asked,
      'BooksModule provides it 2 times',
    ],
  ])('stops the start, which says what to do (%s)', async (_, metadata, tools, problem) => {
    const [found, ...others] = await findingsOf({ ...metadata, options: { tools } });
    expect(others).toEqual([]);
    expect(found?.problem).toBe(
      `${problem}, each with an instance of its own, and the tool can be of one alone.`,
    );
    expect(found?.remedy).toMatch(
      /^Provide (?:Request)?Search in one module that exports it; or make a tool of each instance: rawTool\(new /,
    );
  });

  it.each<[string, ModuleMetadata, string]>([
    [
      'a module that exports it to others',
      {
        imports: [
          moduleOf('FilmsModule', {
            imports: [moduleOf('BooksModule', { providers: [Search, BOOKS], exports: [Search] })],
          }),
        ],
      },
      'found in books',
    ],
    [
      'a module that gives it a second name',
      {
        imports: [
          moduleOf('BooksModule', {
            providers: [Search, BOOKS, { provide: 'other', useExisting: Search }],
          }),
        ],
      },
      'found in books',
    ],
    [
      'a module that has one under its own token, and one for itself',
      {
        imports: [
          moduleOf('BooksModule', {
            providers: [Search, BOOKS, { provide: 'other', useFactory: () => new Search('films') }],
          }),
        ],
      },
      'found in books',
    ],
    [
      'modules that provide the same instance',
      {
        imports: ['BooksModule', 'FilmsModule'].map((name) =>
          moduleOf(name, { providers: [{ provide: Search, useValue: shared }] }),
        ),
      },
      'shared',
    ],
  ])('is of the one instance that there is (%s)', async (_, metadata, expected) => {
    const app = await start({ ...metadata, options: { tools: asked } });
    const { ui } = await app
      .get(ToolLoopService)
      .call({ tool: 'search__raw', actor: { id: 'ada' }, tenant: 'acme' });
    expect(ui).toBe(expected);
    await app.close();
  });
});

describe('a class that two modules provide', () => {
  it('stops the start, which names both', async () => {
    const imports = [
      moduleOf('BooksModule', { providers: [SearchTools, BOOKS] }),
      moduleOf('FilmsModule', { providers: [SearchTools, FILMS] }),
    ];
    expect(await findingsOf({ imports })).toEqual([
      {
        at: 'SearchTools',
        problem:
          'BooksModule and FilmsModule provide it, each with an instance of its own, and their tools have the same ids.',
        remedy,
      },
    ]);
  });

  it('has its tools once if one of them exports it to the other', async () => {
    const books = moduleOf('BooksModule', {
      providers: [SearchTools, BOOKS],
      exports: [SearchTools],
    });
    expect(await answers([books, moduleOf('FilmsModule', { imports: [books] })])).toEqual({
      search__find: 'found in books',
    });
  });

  it('has them under two namespaces, or from the one that is chosen', async () => {
    const books = moduleOf('BooksModule', { providers: [SearchTools, BOOKS] });
    const films = (more: Provider) =>
      moduleOf('FilmsModule', { providers: [SearchTools, FILMS, more] });
    expect(await answers([books, films(namespaceTools(SearchTools, 'films'))])).toEqual({
      search__find: 'found in books',
      films__find: 'found in films',
    });
    expect(await answers([books, films(omitTools(SearchTools))])).toEqual({
      search__find: 'found in books',
    });
  });

  it('may be request-scoped, and have enhancers of its own in each', async () => {
    const marking: NestInterceptor = {
      intercept: (_context, next) => next.handle().pipe(map((value) => `marked ${String(value)}`)),
    };
    @Injectable({ scope: Scope.REQUEST })
    @ToolProvider({ namespace: 'search' })
    @UseInterceptors(marking)
    class ScopedTools {
      constructor(@Inject(INDEX) private readonly index: string) {}

      @LlmTool(read) find(): string {
        return this.index;
      }
    }
    const imports = [
      moduleOf('BooksModule', { providers: [ScopedTools, BOOKS] }),
      moduleOf('FilmsModule', {
        providers: [ScopedTools, FILMS, namespaceTools(ScopedTools, 'films')],
      }),
    ];
    expect(await answers(imports)).toEqual({
      search__find: 'marked books',
      films__find: 'marked films',
    });
  });

  it('may be a controller', async () => {
    class Query {
      @IsString() word!: string;
    }
    @Controller('search')
    class SearchController {
      constructor(@Inject(INDEX) private readonly index: string) {}

      @Post()
      @LlmTool(read)
      find(@Body() { word }: Query): string {
        return `${word} in ${this.index}`;
      }
    }
    const imports = [
      moduleOf('BooksModule', { controllers: [SearchController], providers: [BOOKS] }),
      moduleOf('FilmsModule', {
        controllers: [SearchController],
        providers: [FILMS, namespaceTools(SearchController, 'films')],
      }),
    ];
    const app = await start({ imports });
    const catalog: ToolCatalog = app.get(ToolCatalog);
    expect(catalog.list().map(({ declaredId }) => declaredId)).toEqual(
      expect.arrayContaining(['search__find', 'films__find']),
    );
    await app.close();
  });
});

describe('the word of a module on the tools of a class', () => {
  it('stops the start if the module does not provide the class', async () => {
    const imports = [
      moduleOf('BooksModule', { providers: [namespaceTools(SearchTools, 'books')] }),
    ];
    expect(await findingsOf({ imports })).toEqual([
      {
        at: 'BooksModule',
        problem:
          'Among its providers is namespaceTools() for SearchTools, which it does not provide as a class with tools.',
        remedy: 'List SearchTools beside it, or move it to the module that does.',
      },
    ]);
  });

  it('stops the start if the namespace is no part of an id', async () => {
    const imports = [
      moduleOf('BooksModule', {
        providers: [SearchTools, BOOKS, namespaceTools(SearchTools, 'a b')],
      }),
    ];
    expect(await findingsOf({ imports })).toMatchObject([
      {
        at: 'SearchTools.find',
        problem: '"a b__find" is not a tool id that every model provider accepts.',
      },
    ]);
  });

  it.each(['', undefined, 7])(
    'stops the start if a factory gives the namespace %j',
    async (made) => {
      const named = namespaceTools(SearchTools, { useFactory: () => made as string });
      expect(
        await findingsOf({
          imports: [moduleOf('BooksModule', { providers: [SearchTools, BOOKS, named] })],
        }),
      ).toEqual([
        {
          at: 'BooksModule',
          problem: 'Its namespaceTools() for SearchTools gives no namespace.',
          remedy: 'Give a text, or a factory that returns one.',
        },
      ]);
    },
  );
});
