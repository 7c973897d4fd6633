import { entityTool, tool, type TestTool } from './loop.js';

const text = { type: 'string' as const };
const whole = { type: 'integer' as const };
const number = { type: 'number' as const };
const date = { type: 'string' as const, format: 'date' };

const books = [
  { id: 'b9', title: 'Dune', author: 'Frank Herbert' },
  { id: 'b10', title: 'The Hobbit', author: 'J. R. R. Tolkien' },
];

function bookTools({ id }: { readonly id: string }): TestTool[] {
  const reserve = {
    description: 'Reserve this book for a member.',
    effect: 'state_change' as const,
    properties: { memberId: text },
  };
  return [
    entityTool(
      ['book', id, 'getAvailability'],
      { description: 'Whether this book can be borrowed.' },
      () => ({
        available: true,
        copies: 2,
      }),
    ),
    entityTool(['book', id, 'reserve'], reserve, ({ memberId }) => ({
      reservation: 'r-1',
      memberId: memberId ?? null,
    })),
  ];
}

export const library: readonly TestTool[] = [
  tool(
    'library__findBooks',
    { description: 'Books whose title contains the given text.', properties: { title: text } },
    ({ title }) => {
      const found = books.filter((book) =>
        book.title.toLowerCase().includes((title as string).toLowerCase()),
      );
      return { value: found, tools: found.flatMap(bookTools) };
    },
  ),
  tool(
    'library__addMember',
    {
      description: 'Register a member.',
      effect: 'state_change',
      properties: { name: text, email: { type: 'string', format: 'email' } },
    },
    (args) => ({ id: 'm-1', ...args }),
  ),
];

export const staff: readonly TestTool[] = [
  tool(
    'hr__lookUpEmployee',
    {
      description: 'An employee by number.',
      properties: { employeeId: { type: 'string', pattern: '^E\\d+$' } },
    },
    (args) => ({
      value: { ...args, name: 'Ada Byron', department: 'Research' },
      tools: [
        entityTool(
          ['employee', args['employeeId'] as string, 'getVacationBalance'],
          { description: 'Days of vacation left.' },
          () => ({
            days: 12,
          }),
        ),
      ],
    }),
  ),
];

export const weather: readonly TestTool[] = [
  tool(
    'weather__forecast',
    {
      description: 'Weather forecast for a city.',
      properties: { city: text, day: { type: 'string', enum: ['today', 'tomorrow'] } },
    },
    (args) => ({ ...args, condition: 'rain', temperature: 14 }),
  ),
];

const sums: readonly (readonly [string, (a: number, b: number) => number])[] = [
  ['add', (a, b) => a + b],
  ['subtract', (a, b) => a - b],
  ['multiply', (a, b) => a * b],
  ['divide', (a, b) => a / b],
];

export const calculator: readonly TestTool[] = sums.map(([name, compute]) =>
  tool(
    `calc__${name}`,
    { description: `${name} two numbers.`, properties: { a: number, b: number } },
    ({ a, b }) => compute(Number(a), Number(b)),
  ),
);

function cartTools(id: string): TestTool[] {
  const add = { productId: text, quantity: { ...whole, minimum: 1, maximum: 99 } };
  return [
    entityTool(
      ['cart', id, 'addItem'],
      { description: 'Add a product to this cart.', effect: 'state_change', properties: add },
      (args) => ({ success: true, ...args }),
    ),
    entityTool(['cart', id, 'getContents'], { description: 'What is in this cart.' }, () => [
      { productId: 'p-1', quantity: 1 },
    ]),
  ];
}

export const shop: readonly TestTool[] = [
  tool(
    'carts__getCart',
    { description: 'A cart by id.', properties: { cartId: text } },
    ({ cartId }) => ({
      value: { id: cartId ?? null },
      tools: cartTools(cartId as string),
    }),
  ),
  tool(
    'catalog__getProduct',
    { description: 'A product by id.', properties: { productId: text } },
    (args) => ({
      id: args['productId'] ?? null,
      name: 'Pen',
    }),
  ),
];

export const home: readonly TestTool[] = [
  tool(
    'home__setLight',
    {
      description: 'Turn the light of a room on or off.',
      effect: 'state_change',
      properties: {
        room: text,
        on: { type: 'boolean' },
        brightness: { ...whole, minimum: 0, maximum: 100 },
      },
      required: ['room', 'on'],
    },
    (args) => args,
  ),
  tool(
    'home__getTemperature',
    {
      description: 'Temperature of a room.',
      properties: { room: { type: 'string', enum: ['kitchen', 'living_room'] } },
    },
    () => ({
      value: 21.5,
      unit: '°C',
    }),
  ),
];

export const calendar: readonly TestTool[] = [
  tool(
    'calendar__createEvent',
    {
      description: 'Create an event.',
      effect: 'state_change',
      properties: {
        title: text,
        date,
        time: text,
        attendees: { type: 'array', items: { type: 'string', format: 'email' } },
      },
      required: ['title', 'date'],
    },
    (args) => ({ id: 'ev-1', ...args }),
  ),
  tool(
    'calendar__listEvents',
    { description: 'Events between two dates.', properties: { from: date, to: date } },
    () => [{ id: 'ev-1', title: 'Standup', date: '2026-03-02' }],
  ),
];

const flights = [
  { id: 'LH123', departure: '2026-05-01T08:00:00Z', price: { amount: 99, currency: 'EUR' } },
  { id: 'AZ7', departure: '2026-05-01T18:00:00Z', price: { amount: 79, currency: 'EUR' } },
];
const cabins = ['economy', 'premium_economy', 'business'];

function flightTools({ id }: { readonly id: string }): TestTool[] {
  const properties = {
    passengers: { ...whole, minimum: 1, maximum: 9 },
    cabin: { type: 'string' as const, enum: cabins, default: 'economy' },
  };
  const book = {
    description: 'Book seats on this flight.',
    effect: 'state_change' as const,
    properties,
    required: ['passengers'],
  };
  return [
    entityTool(['flight', id, 'book'], book, (args) => ({
      bookingId: 'bk-9',
      flightId: id,
      ...args,
    })),
    entityTool(['flight', id, 'getSeats'], { description: 'Free seats on this flight.' }, () => 42),
  ];
}

export const airline: readonly TestTool[] = [
  tool(
    'flights__search',
    {
      description: 'Search flights between two cities on a date.',
      properties: { origin: text, destination: text, date },
    },
    () => ({
      value: flights,
      tools: flights.flatMap(flightTools),
    }),
  ),
];

const issues = [
  { handle: 'h1', id: '5f0c2b1e-1111-4222-8333-444455556666', title: 'Printer on fire' },
  { handle: 'h2', id: '9a9a2b1e-1111-4222-8333-444455556666', title: 'Mouse broken' },
];

/** Long ids, so that the tools are bound to handles and name the real id in their descriptions. */
export const helpDesk: readonly TestTool[] = [
  tool(
    'support__findIssues',
    { description: 'Issues matching a text.', properties: { text } },
    () => ({
      value: issues.map(({ id, title }) => ({ id, title, state: 'open' })),
      tools: issues.flatMap(({ handle, id }) => [
        entityTool(
          ['issue', handle, 'close'],
          {
            description: `Close this issue (id ${id}).`,
            effect: 'state_change',
            properties: { reason: text },
            required: [],
          },
          () => null,
        ),
        entityTool(
          ['issue', handle, 'getComments'],
          { description: `Comments on this issue (id ${id}).` },
          () => (handle === 'h1' ? ['It smokes', 'Still'] : []),
        ),
      ]),
    }),
  ),
];

const patients = [
  { id: 'pt-1', firstName: 'Maria', lastName: 'Lopez' },
  { id: 'pt-2', firstName: 'Mario', lastName: 'Lopez' },
];

/** Entity tools grouped by method, the instance an argument. */
export const clinic: readonly TestTool[] = [
  tool(
    'clinic__findPatients',
    { description: 'Find patients by last name.', properties: { lastName: text } },
    ({ lastName }) => {
      const value = patients.filter((patient) => patient.lastName === lastName);
      const properties = { id: { type: 'string' as const, enum: patients.map(({ id }) => id) } };
      const bloodType = tool(
        'patient_getBloodType',
        {
          declaredId: 'patient_*_getBloodType',
          description: 'Blood type of a patient.',
          properties,
        },
        ({ id }) => (id === 'pt-1' ? 'A+' : '0-'),
      );
      return { value, tools: value.length > 0 ? [bloodType] : [] };
    },
  ),
];

export const kitchen: readonly TestTool[] = [
  tool(
    'kitchen__findRecipes',
    {
      description: 'Recipes that use the ingredients.',
      properties: {
        ingredients: { type: 'array', items: text, minItems: 1 },
        vegetarian: { type: 'boolean' },
        maxMinutes: whole,
      },
      required: ['ingredients'],
    },
    () => [{ title: 'Soup', minutes: 20 }],
  ),
];

export const parcels: readonly TestTool[] = [
  tool(
    'parcels__quote',
    {
      description: 'Price of a parcel.',
      properties: {
        weightKg: number,
        address: {
          type: 'object',
          properties: { city: text, zip: { type: 'string', pattern: '^\\d{5}$' } },
          required: ['city', 'zip'],
        },
        express: { type: 'boolean' },
      },
      required: ['weightKg', 'address'],
    },
    () => ({ amount: 9.5, currency: 'EUR' }),
  ),
];

export const bank: readonly TestTool[] = [
  tool(
    'bank__getBalance',
    { description: 'Balance of an account.', properties: { accountNumber: whole } },
    () => ({
      amount: 1234.5,
      currency: 'USD',
    }),
  ),
  tool(
    'bank__transfer',
    {
      description: 'Transfer money between accounts.',
      effect: 'external_side_effect',
      properties: {
        fromAccount: whole,
        toAccount: whole,
        amount: { type: 'number', exclusiveMinimum: 0 },
        currency: { type: 'string', enum: ['EUR', 'USD'] },
      },
      required: ['fromAccount', 'toAccount', 'amount'],
    },
    () => ({ status: 'booked' }),
  ),
];

export const warehouse: readonly TestTool[] = [
  tool(
    'get_stock_level',
    { description: 'How many units of a product are in the warehouse.', properties: { sku: text } },
    () => 17,
  ),
  tool(
    'reorder_product',
    {
      description: 'Reorder a product.',
      effect: 'state_change',
      properties: { sku: text, units: { ...whole, minimum: 1 } },
    },
    (args) => args,
  ),
];

const students = ['Tim', 'Ana', 'Lee'].map((name, index) => ({ id: `s${index + 1}`, name }));

export const school: readonly TestTool[] = [
  tool(
    'school__listStudents',
    { description: 'All students of a class.', properties: { classId: text } },
    () => ({
      value: students,
      tools: students.map(({ id }) =>
        entityTool(['student', id, 'getGrade'], { description: "This student's grade." }, () => ({
          grade: `A-${id}`,
        })),
      ),
    }),
  ),
];

const products = [
  { id: 'p-1', name: 'Desk lamp', stock: 4, price: { amount: 49.9, currency: 'EUR' } },
  { id: 'p-2', name: 'Office chair', stock: 0, price: { amount: 199, currency: 'EUR' } },
];

/** A table as list, read, update and destroy. */
export const catalog: readonly TestTool[] = [
  tool(
    'product__list',
    {
      description: 'List products.',
      properties: {
        search: text,
        inStock: { type: 'boolean' },
        sort: { type: 'string', enum: ['name', 'price'] },
      },
      required: [],
    },
    ({ search = '' }) => {
      const items = products.filter(({ name }) =>
        name.toLowerCase().includes((search as string).toLowerCase()),
      );
      return { items, total: items.length };
    },
  ),
  tool(
    'product__read',
    { description: 'Read one product.', properties: { id: text } },
    ({ id }) => products.find((product) => product.id === id) ?? null,
  ),
  tool(
    'product__update',
    {
      description: 'Update a product.',
      effect: 'state_change',
      properties: { id: text, stock: whole, name: text },
      required: ['id'],
    },
    (args) => args,
  ),
  tool(
    'product__destroy',
    { description: 'Delete a product.', effect: 'state_change', properties: { id: text } },
    () => null,
  ),
];
