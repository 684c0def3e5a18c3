import {
  agent,
  filter,
  pipeline,
  raw,
  registry,
  saga,
  scatterGather,
  schema,
  schemaMap,
  server,
  tool,
  where,
} from "registry-dsl";

// Schemas

const Address = schema(
  "Address",
  "1.0.0",
  {
    properties: {
      city: { type: "string" },
      country: { type: "string" },
      state: { type: "string" },
      street: { type: "string" },
      zipCode: { type: "string" },
    },
    required: ["street", "city", "zipCode", "country"],
    type: "object",
  },
  { description: "Shipping address" },
);

const CreateDocumentRequest = schema(
  "CreateDocumentRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      author: { description: "Author", type: "string" },
      chunkOverlap: {
        default: 50,
        description: "Characters shared by consecutive chunks",
        minimum: 0,
        type: "integer",
      },
      chunkSize: { default: 512, description: "Characters per chunk", minimum: 1, type: "integer" },
      content: { description: "Complete text", type: "string" },
      tags: { items: { type: "string" }, type: "array" },
      title: { description: "Title", minLength: 1, type: "string" },
    },
    required: ["title", "content"],
    type: "object",
  },
  { description: "A document to store" },
);

const CreateTaskRequest = schema(
  "CreateTaskRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      assignee: { description: "Id of the assigned user", type: "string" },
      description: { description: "Full description", type: "string" },
      priority: { default: "normal", enum: ["low", "normal", "high"], type: "string" },
      title: { description: "Short title", minLength: 1, type: "string" },
    },
    required: ["title"],
    type: "object",
  },
  { description: "A task to create" },
);

const Document = schema(
  "Document",
  "1.0.0",
  {
    properties: {
      author: { type: "string" },
      chunkCount: { description: "Number of chunks", minimum: 1, type: "integer" },
      content: { type: "string" },
      createdAt: { format: "date-time", type: "string" },
      id: { description: "Such as doc-1", type: "string" },
      tags: { items: { type: "string" }, type: "array" },
      title: { type: "string" },
      updatedAt: { format: "date-time", type: "string" },
    },
    required: ["id", "title", "content"],
    type: "object",
  },
  { description: "A stored document" },
);

const FetchRequest = schema(
  "FetchRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      maxLength: { description: "Maximum number of characters to return", minimum: 1, type: "integer" },
      url: { description: "URL", format: "uri", type: "string" },
    },
    required: ["url"],
    type: "object",
  },
  { description: "A web page to fetch" },
);

const FetchedPage = schema(
  "FetchedPage",
  "1.0.0",
  {
    properties: {
      content: { type: "string" },
      contentType: { type: "string" },
      title: { minLength: 1, type: "string" },
      truncated: { description: "Whether maxLength truncated the content", type: "boolean" },
      url: { description: "Requested URL", format: "uri", type: "string" },
    },
    required: ["url", "title", "content"],
    type: "object",
  },
  { description: "A web page as text" },
);

const KnowledgeEntity = schema(
  "KnowledgeEntity",
  "1.0.0",
  {
    properties: {
      entityType: { description: "Type of the entity", type: "string" },
      name: { minLength: 1, type: "string" },
      observations: { description: "Observations about the entity", items: { type: "string" }, type: "array" },
    },
    required: ["name", "entityType"],
    type: "object",
  },
  { description: "A node of the knowledge graph, identified by its name" },
);

const KnowledgeRelation = schema(
  "KnowledgeRelation",
  "1.0.0",
  {
    properties: {
      from: { description: "Name of an entity", type: "string" },
      relationType: { description: "In active voice, such as follows", type: "string" },
      to: { description: "Name of an entity", type: "string" },
    },
    required: ["from", "to", "relationType"],
    type: "object",
  },
  { description: "An edge of the knowledge graph" },
);

const Notification = schema(
  "Notification",
  "1.0.0",
  {
    properties: {
      body: { type: "string" },
      channel: { enum: ["in_app", "email", "sms", "push"], type: "string" },
      id: { description: "Such as notif-1", type: "string" },
      sentAt: { format: "date-time", type: "string" },
      subject: { type: "string" },
      userId: { description: "Recipient", type: "string" },
    },
    required: ["id", "userId", "subject", "body", "channel"],
    type: "object",
  },
  { description: "A notification that was sent" },
);

const OrderLine = schema(
  "OrderLine",
  "1.0.0",
  {
    properties: {
      price: { description: "Price per piece", minimum: 0, type: "number" },
      productId: { description: "Such as prod-1", type: "string" },
      quantity: { minimum: 1, type: "integer" },
    },
    required: ["productId", "quantity"],
    type: "object",
  },
  { description: "Quantity of one product" },
);

const PaymentMethod = schema(
  "PaymentMethod",
  "1.0.0",
  {
    properties: {
      token: { description: "Payment token; tok_declined is always declined", type: "string" },
      type: { enum: ["credit_card", "paypal", "bank_transfer"], type: "string" },
    },
    required: ["type", "token"],
    type: "object",
  },
  { description: "Payment method" },
);

const OrderRequest = schema(
  "OrderRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      currency: { default: "USD", description: "ISO 4217 code", maxLength: 3, minLength: 3, type: "string" },
      customerId: { type: "string" },
      items: { items: OrderLine, minItems: 1, type: "array" },
      orderId: { description: "Order id; an order is processed once", minLength: 1, type: "string" },
      paymentMethod: PaymentMethod,
      shippingAddress: Address,
      totalAmount: { description: "Amount in units of the currency", minimum: 0, type: "number" },
    },
    required: ["orderId", "customerId", "items", "totalAmount", "shippingAddress", "paymentMethod"],
    type: "object",
  },
  { description: "An order to process, with its total" },
);

const OrderResult = schema(
  "OrderResult",
  "1.0.0",
  {
    properties: {
      error: { type: "string" },
      estimatedDelivery: { format: "date", type: "string" },
      orderId: { type: "string" },
      reservationId: { type: "string" },
      status: { enum: ["completed", "compensated", "compensation_failed"], type: "string" },
      trackingNumber: { type: "string" },
      transactionId: { type: "string" },
    },
    required: ["orderId", "status"],
    type: "object",
  },
  { description: "Result of an order" },
);

const PageRequest = schema(
  "PageRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      limit: {
        default: 10,
        description: "Maximum number of items to return",
        maximum: 100,
        minimum: 1,
        type: "integer",
      },
      offset: { default: 0, description: "Number of items to skip", minimum: 0, type: "integer" },
    },
    type: "object",
  },
  { description: "A page of a list" },
);

const PaymentRequest = schema(
  "PaymentRequest",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      amount: { description: "In units of the currency", minimum: 0, type: "number" },
      currency: { default: "USD", description: "ISO 4217 code", maxLength: 3, minLength: 3, type: "string" },
      orderId: { minLength: 1, type: "string" },
      paymentMethod: PaymentMethod,
    },
    required: ["orderId", "amount", "paymentMethod"],
    type: "object",
  },
  { description: "A charge to make or check" },
);

const ResearchReport = schema(
  "ResearchReport",
  "1.0.0",
  {
    properties: {
      findings: {
        items: {
          properties: {
            claim: { type: "string" },
            confidence: { maximum: 1, minimum: 0, type: "number" },
            evidence: { type: "string" },
            sources: { items: { type: "string" }, type: "array" },
          },
          required: ["claim", "evidence", "confidence"],
          type: "object",
        },
        type: "array",
      },
      recommendations: { items: { type: "string" }, type: "array" },
      relatedTopics: { items: { type: "string" }, type: "array" },
      summary: { type: "string" },
    },
    required: ["summary", "findings"],
    type: "object",
  },
  { description: "Output of the research agent" },
);

const ResearchRequest = schema(
  "ResearchRequest",
  "1.0.0",
  {
    properties: {
      depth: {
        default: "medium",
        description: "Depth of the research",
        enum: ["shallow", "medium", "deep"],
        type: "string",
      },
      maxResults: { default: 10, minimum: 1, type: "integer" },
      sources: { description: "Sources to prefer", items: { type: "string" }, type: "array" },
      topic: { description: "Topic to research", minLength: 1, type: "string" },
    },
    required: ["topic"],
    type: "object",
  },
  { description: "Input of the research agent" },
);

const Reservation = schema(
  "Reservation",
  "1.0.0",
  {
    properties: {
      items: { items: OrderLine, type: "array" },
      orderId: { type: "string" },
      reservationId: { description: "Such as res-1", type: "string" },
      status: { enum: ["reserved", "released"], type: "string" },
    },
    required: ["reservationId", "orderId", "items", "status"],
    type: "object",
  },
  { description: "Stock reserved for an order" },
);

const SearchFilters = schema(
  "SearchFilters",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      author: { description: "Author", type: "string" },
      dateRange: {
        description: "Creation date, inclusive",
        properties: {
          end: { description: "Last day", format: "date", type: "string" },
          start: { description: "First day", format: "date", type: "string" },
        },
        type: "object",
      },
      tags: { description: "Match at least one of these tags", items: { type: "string" }, type: "array" },
    },
    type: "object",
  },
  { description: "Filters for documents; all must match" },
);

const SearchQuery = schema(
  "SearchQuery",
  "1.0.0",
  {
    additionalProperties: false,
    properties: {
      filters: SearchFilters,
      limit: {
        default: 10,
        description: "Maximum number of items to return",
        maximum: 100,
        minimum: 1,
        type: "integer",
      },
      offset: { default: 0, description: "Number of items to skip", minimum: 0, type: "integer" },
      query: { description: "Search words", minLength: 1, type: "string" },
    },
    required: ["query"],
    type: "object",
  },
  { description: "A search query with paging" },
);

const SearchResult = schema(
  "SearchResult",
  "1.0.0",
  {
    properties: {
      id: { description: "Id of the hit, such as doc-1 or user-1", type: "string" },
      metadata: { description: "Additional metadata", type: "object" },
      score: { description: "Relevance, 1 is best", maximum: 1, minimum: 0, type: "number" },
      snippet: { description: "Matching part", type: "string" },
      title: { description: "Title or name", type: "string" },
      url: { description: "URL of the item", format: "uri", type: "string" },
    },
    required: ["id", "title", "score"],
    type: "object",
  },
  { description: "A search hit" },
);

const SearchResults = schema(
  "SearchResults",
  "1.0.0",
  {
    properties: {
      hasMore: { description: "Whether another page follows", type: "boolean" },
      results: { items: SearchResult, type: "array" },
      totalCount: { description: "Total number of matches on all pages", minimum: 0, type: "integer" },
    },
    required: ["results"],
    type: "object",
  },
  { description: "Hits, best first" },
);

const Shipment = schema(
  "Shipment",
  "1.0.0",
  {
    properties: {
      address: Address,
      estimatedDelivery: { format: "date", type: "string" },
      items: { items: OrderLine, type: "array" },
      orderId: { type: "string" },
      status: { enum: ["created", "cancelled"], type: "string" },
      trackingNumber: { description: "Such as track-1", type: "string" },
    },
    required: ["trackingNumber", "orderId", "status"],
    type: "object",
  },
  { description: "A shipment and its status" },
);

const SummarizeRequest = schema(
  "SummarizeRequest",
  "1.0.0",
  {
    properties: {
      content: { description: "The text to summarize", type: "string" },
      maxLength: { description: "Approximate number of words", minimum: 1, type: "integer" },
      style: { default: "paragraph", enum: ["bullet", "paragraph", "executive"], type: "string" },
    },
    required: ["content"],
    type: "object",
  },
  { description: "Input of the summarizer agent" },
);

const SummarizeResponse = schema(
  "SummarizeResponse",
  "1.0.0",
  {
    properties: {
      keyPoints: { items: { type: "string" }, type: "array" },
      summary: { type: "string" },
      wordCount: { minimum: 0, type: "integer" },
    },
    required: ["summary"],
    type: "object",
  },
  { description: "Output of the summarizer agent" },
);

const Task = schema(
  "Task",
  "1.0.0",
  {
    properties: {
      assignee: { description: "Id of a user", type: "string" },
      completedAt: { format: "date-time", type: "string" },
      createdAt: { format: "date-time", type: "string" },
      description: { type: "string" },
      id: { description: "Such as task-1", type: "string" },
      priority: { enum: ["low", "normal", "high"], type: "string" },
      status: { enum: ["open", "completed"], type: "string" },
      title: { type: "string" },
    },
    required: ["id", "title", "status"],
    type: "object",
  },
  { description: "A task" },
);

const Transaction = schema(
  "Transaction",
  "1.0.0",
  {
    properties: {
      amount: { minimum: 0, type: "number" },
      currency: { type: "string" },
      orderId: { type: "string" },
      status: { enum: ["charged", "refunded"], type: "string" },
      transactionId: { description: "Such as txn-1", type: "string" },
    },
    required: ["transactionId", "orderId", "amount", "status"],
    type: "object",
  },
  { description: "A charge and its status" },
);

const User = schema(
  "User",
  "1.0.0",
  {
    properties: {
      bio: { type: "string" },
      email: { format: "email", type: "string" },
      id: { description: "Such as user-1", type: "string" },
      name: { type: "string" },
      role: { type: "string" },
    },
    required: ["id", "name"],
    type: "object",
  },
  { description: "A person" },
);

// Servers

const documentService = server("document-service", "1.2.0", {
  description: "Stores documents in chunks and ranks them by relevance",
  metadata: { owner: "knowledge-team" },
});

const fetchServer = server("fetch-server", "1.2.3", {
  description: "Fetches web pages as text",
  metadata: { owner: "knowledge-team" },
});

const inventoryService = server("inventory-service", "1.0.0", {
  description: "Reserves stock for orders",
  metadata: { owner: "commerce-team" },
});

const memoryServer = server("memory-server", "1.0.0", {
  description: "Keeps a knowledge graph of entities and relations",
  metadata: { owner: "knowledge-team" },
});

const notificationService = server("notification-service", "1.0.0", {
  description: "Notifies users over several channels",
  metadata: { owner: "workflow-team" },
});

const paymentService = server("payment-service", "1.0.0", {
  description: "Charges and refunds orders",
  metadata: { owner: "commerce-team" },
});

const shippingService = server("shipping-service", "1.0.0", {
  description: "Ships orders, tracks and cancels shipments",
  metadata: { owner: "commerce-team" },
});

const taskService = server("task-service", "1.0.0", {
  description: "Manages tasks and their assignees",
  metadata: { owner: "workflow-team" },
});

const timeServer = server("time-server", "1.0.0", {
  description: "Returns the time in a time zone; runs over stdio",
  metadata: { owner: "platform-team" },
});

const userService = server("user-service", "1.1.0", {
  description: "Lists users and finds them by bio",
  metadata: { owner: "identity-team" },
});

// Tools

const completeTask = tool("complete_task", "1.0.0", {
  description: "Complete a task; repeated calls change nothing",
  metadata: { tags: ["tasks"] },
  inputSchema: {
    additionalProperties: false,
    properties: { id: { description: "Such as task-1", type: "string" } },
    required: ["id"],
    type: "object",
  },
  outputSchema: Task,
}).source(taskService);

const createDocument = tool("create_document", "1.0.0", {
  description: "Store a document, split into overlapping chunks",
  metadata: { tags: ["documents"] },
  inputSchema: CreateDocumentRequest,
  outputSchema: Document,
}).source(documentService);

const createEntities = tool("create_entities", "1.0.0", {
  description: "Add entities to the knowledge graph; those that exist are left as they are",
  metadata: { tags: ["knowledge"] },
  inputSchema: {
    additionalProperties: false,
    properties: { entities: { items: KnowledgeEntity, type: "array" } },
    required: ["entities"],
    type: "object",
  },
  outputSchema: {
    properties: { entities: { description: "New items", items: KnowledgeEntity, type: "array" } },
    required: ["entities"],
    type: "object",
  },
}).source(memoryServer);

const createNote = tool("create_note", "1.0.0", {
  title: "Create note",
  description: "Store a short text: create_document with small chunks and the default tag note",
  metadata: { tags: ["documents", "alias"] },
  inputSchema: CreateDocumentRequest,
  outputSchema: Document,
})
  .source(documentService, {
    tool: "create_document",
    defaults: { chunkOverlap: 0, chunkSize: 256, tags: ["note"] },
    hideFields: ["chunkOverlap"],
  });

const createRelations = tool("create_relations", "1.0.0", {
  description: "Connect entities of the knowledge graph; all of the relations or none",
  metadata: { tags: ["knowledge"] },
  inputSchema: {
    additionalProperties: false,
    properties: { relations: { items: KnowledgeRelation, type: "array" } },
    required: ["relations"],
    type: "object",
  },
  outputSchema: {
    properties: { relations: { description: "New items", items: KnowledgeRelation, type: "array" } },
    required: ["relations"],
    type: "object",
  },
}).source(memoryServer);

const createTask = tool("create_task", "1.0.0", {
  description: "Create a task, with or without an assignee",
  metadata: { tags: ["tasks"] },
  inputSchema: CreateTaskRequest,
  outputSchema: Task,
}).source(taskService);

const createTaskAndNotifyInput = {
  additionalProperties: false,
  properties: {
    assignee: { description: "Id of the assigned user, who is notified", minLength: 1, type: "string" },
    description: { description: "Full description", type: "string" },
    priority: { default: "normal", enum: ["low", "normal", "high"], type: "string" },
    title: { description: "Short title", minLength: 1, type: "string" },
  },
  required: ["title", "assignee"],
  type: "object",
} as const;

const sendNotification = tool("send_notification", "1.0.0", {
  description: "Send a notification to one user over one channel",
  metadata: { tags: ["notifications"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      body: { type: "string" },
      channel: { default: "in_app", enum: ["in_app", "email", "sms", "push"], type: "string" },
      subject: { type: "string" },
      userId: { description: "Such as user-1", minLength: 1, type: "string" },
    },
    required: ["userId", "subject", "body"],
    type: "object",
  },
  outputSchema: Notification,
}).source(notificationService);

const createTaskAndNotify = tool("create_task_and_notify", "1.0.0", {
  description: "Create a task and notify its assignee; returns both",
  metadata: { tags: ["tasks", "notifications"] },
  inputSchema: createTaskAndNotifyInput,
  outputSchema: {
    properties: { notification: Notification, task: Task },
    required: ["task", "notification"],
    type: "object",
  },
})
  .composition(
    pipeline(createTaskAndNotifyInput)
      .step("create_task", createTask)
      .step("notify", sendNotification, ({ steps }) => ({
        body: steps.create_task.title,
        channel: "in_app",
        subject: "New task assigned",
        userId: raw({ input: { path: "$.assignee" } }),
      }))
      .step("both", schemaMap({ notification: "$.notification", task: "$.task" }), ({ steps }) => ({
        notification: steps.notify,
        task: steps.create_task,
      })),
  );

const fetch = tool("fetch", "1.2.3", {
  description: "Fetch a web page as text",
  metadata: { tags: ["web"] },
  inputSchema: FetchRequest,
  outputSchema: FetchedPage,
}).source(fetchServer);

const fetchAndStore = tool("fetch_and_store", "1.0.0", {
  description: "Fetch a web page and keep it as a document under its title",
  metadata: { tags: ["documents", "web"] },
  inputSchema: FetchRequest,
  outputSchema: Document,
})
  .composition(
    pipeline(FetchRequest)
      .step("fetch_content", fetch)
      .step("store_document", createDocument, ({ steps }) => ({
        content: steps.fetch_content.content,
        tags: ["web"],
        title: steps.fetch_content.title,
      })),
  );

const getCurrentTime = tool("get_current_time", "1.0.0", {
  description: "Get the current time in a time zone",
  metadata: { tags: ["time"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      timezone: {
        description: "IANA zone such as Europe/Berlin, or an offset such as +02:00",
        type: "string",
      },
    },
    required: ["timezone"],
    type: "object",
  },
  outputSchema: {
    properties: {
      datetime: { description: "Local time with its offset", format: "date-time", type: "string" },
      dayOfWeek: { type: "string" },
      isDst: { description: "Whether daylight saving time is on", type: "boolean" },
      timezone: { type: "string" },
      utcOffset: { type: "string" },
    },
    required: ["timezone", "datetime"],
    type: "object",
  },
}).source(timeServer);

const getDocument = tool("get_document", "1.0.0", {
  description: "Read one document by its id",
  metadata: { tags: ["documents"] },
  inputSchema: {
    additionalProperties: false,
    properties: { id: { description: "Such as doc-1", type: "string" } },
    required: ["id"],
    type: "object",
  },
  outputSchema: Document,
}).source(documentService);

const getNotifications = tool("get_notifications", "1.0.0", {
  description: "Read what was sent to one user, oldest first",
  metadata: { tags: ["notifications"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      channel: { enum: ["in_app", "email", "sms", "push"], type: "string" },
      limit: {
        default: 10,
        description: "Maximum number of items to return",
        maximum: 100,
        minimum: 1,
        type: "integer",
      },
      offset: { default: 0, description: "Number of items to skip", minimum: 0, type: "integer" },
      userId: { description: "Such as user-1", type: "string" },
    },
    required: ["userId"],
    type: "object",
  },
  outputSchema: {
    properties: {
      hasMore: { description: "Whether another page follows", type: "boolean" },
      notifications: { items: Notification, type: "array" },
      totalCount: { description: "Total number of matches on all pages", minimum: 0, type: "integer" },
    },
    required: ["notifications"],
    type: "object",
  },
}).source(notificationService);

const getPageTitle = tool("get_page_title", "1.0.0", {
  description: "Get the URL and title of a web page",
  metadata: { tags: ["web", "projection"] },
  inputSchema: FetchRequest,
  outputSchema: {
    properties: { title: { type: "string" }, url: { format: "uri", type: "string" } },
    required: ["url", "title"],
    type: "object",
  },
  outputTransform: { title: { coalesce: { paths: ["$.title", "$.url"] } }, url: "$.url" },
}).source(fetchServer, { tool: "fetch", defaults: { maxLength: 1 }, hideFields: ["maxLength"] });

const getUser = tool("get_user", "1.0.0", {
  description: "Read one user by id",
  metadata: { tags: ["people"] },
  inputSchema: {
    additionalProperties: false,
    properties: { id: { description: "Such as user-1", type: "string" } },
    required: ["id"],
    type: "object",
  },
  outputSchema: User,
}).source(userService);

const getWebpage = tool("get_webpage", "1.0.0", {
  description: "Read the beginning of a web page, at most 2000 characters",
  metadata: { tags: ["web", "alias"] },
  inputSchema: FetchRequest,
  outputSchema: FetchedPage,
}).source(fetchServer, { tool: "fetch", defaults: { maxLength: 2000 }, hideFields: ["maxLength"] });

const inventoryCheck = tool("inventory_check", "1.0.0", {
  description: "List the stock and its reservations",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      orderId: { description: "Only reservations of this order", type: "string" },
      productId: { description: "Only this product", type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: {
      products: {
        items: {
          properties: {
            available: { minimum: 0, type: "integer" },
            name: { type: "string" },
            onHand: { minimum: 0, type: "integer" },
            productId: { type: "string" },
            reserved: { minimum: 0, type: "integer" },
          },
          required: ["productId", "available"],
          type: "object",
        },
        type: "array",
      },
      reservations: { items: Reservation, type: "array" },
    },
    required: ["products", "reservations"],
    type: "object",
  },
}).source(inventoryService);

const inventoryRelease = tool("inventory_release", "1.0.0", {
  description: "Release reserved stock; repeated calls change nothing",
  annotations: { destructiveHint: true, idempotentHint: true, readOnlyHint: false },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      orderId: { description: "Or all reservations of this order", type: "string" },
      reservationId: { description: "Id of one reservation", type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: {
      changed: { description: "Number of records changed by this call", minimum: 0, type: "integer" },
      reservations: { items: Reservation, type: "array" },
    },
    required: ["reservations", "changed"],
    type: "object",
  },
}).source(inventoryService);

const inventoryReserve = tool("inventory_reserve", "1.0.0", {
  description: "Reserve stock for all items of an order, or for none",
  annotations: { destructiveHint: false, idempotentHint: false, readOnlyHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      items: { items: OrderLine, minItems: 1, type: "array" },
      orderId: { minLength: 1, type: "string" },
    },
    required: ["orderId", "items"],
    type: "object",
  },
  outputSchema: Reservation,
}).source(inventoryService);

const listDocuments = tool("list_documents", "1.0.0", {
  description: "List the documents without their content, oldest first",
  metadata: { tags: ["documents"] },
  inputSchema: PageRequest,
  outputSchema: {
    properties: {
      documents: {
        items: {
          properties: {
            createdAt: { format: "date-time", type: "string" },
            id: { type: "string" },
            tags: { items: { type: "string" }, type: "array" },
            title: { type: "string" },
          },
          required: ["id", "title"],
          type: "object",
        },
        type: "array",
      },
      hasMore: { description: "Whether another page follows", type: "boolean" },
      totalCount: { description: "Total number of matches on all pages", minimum: 0, type: "integer" },
    },
    required: ["documents"],
    type: "object",
  },
}).source(documentService);

const listTasks = tool("list_tasks", "1.0.0", {
  description: "List tasks, oldest first, of one assignee or in one status if wanted",
  metadata: { tags: ["tasks"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      assignee: { description: "Id of a user", type: "string" },
      limit: {
        default: 10,
        description: "Maximum number of items to return",
        maximum: 100,
        minimum: 1,
        type: "integer",
      },
      offset: { default: 0, description: "Number of items to skip", minimum: 0, type: "integer" },
      status: { enum: ["open", "completed"], type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: {
      hasMore: { description: "Whether another page follows", type: "boolean" },
      tasks: { items: Task, type: "array" },
      totalCount: { description: "Total number of matches on all pages", minimum: 0, type: "integer" },
    },
    required: ["tasks"],
    type: "object",
  },
}).source(taskService);

const listUsers = tool("list_users", "1.0.0", {
  description: "List all users, by id",
  metadata: { tags: ["people"] },
  inputSchema: PageRequest,
  outputSchema: {
    properties: {
      hasMore: { description: "Whether another page follows", type: "boolean" },
      totalCount: { description: "Total number of matches on all pages", minimum: 0, type: "integer" },
      users: { items: User, type: "array" },
    },
    required: ["users"],
    type: "object",
  },
}).source(userService);

const searchDocuments = tool("search_documents", "1.0.0", {
  title: "Search documents",
  description: "Find documents by relevance to a query",
  metadata: { tags: ["documents", "search"] },
  inputSchema: SearchQuery,
  outputSchema: SearchResults,
}).source(documentService);

const searchUsersByBio = tool("search_users_by_bio", "1.0.0", {
  description: "Find users whose bio matches a query",
  metadata: { tags: ["people", "search"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      limit: {
        default: 10,
        description: "Maximum number of items to return",
        maximum: 100,
        minimum: 1,
        type: "integer",
      },
      offset: { default: 0, description: "Number of items to skip", minimum: 0, type: "integer" },
      query: { description: "Search words", minLength: 1, type: "string" },
    },
    required: ["query"],
    type: "object",
  },
  outputSchema: SearchResults,
}).source(userService);

const multiSearch = tool("multi_search", "1.0.0", {
  description: "Search documents and users; returns one ranked list",
  metadata: { tags: ["search"] },
  inputSchema: SearchQuery,
  outputSchema: SearchResults,
})
  .composition(
    pipeline(SearchQuery)
      .step(
        "gather",
        scatterGather({
          aggregation: [
            { flatten: true },
            { sort: { field: "$.score", order: "desc" } },
            { dedupe: { field: "$.id" } },
            { limit: { count: 20 } },
          ],
          timeoutMs: 5000,
          failFast: false,
        })
          .target(
            pipeline()
              .step("search", searchDocuments)
              .step("hits", filter(where("$.score", "gte", 0.05)), ({ steps }) => steps.search.results),
          )
          .target(
            pipeline()
              .step("search", searchUsersByBio, ({ input }) => ({ limit: input.limit, query: input.query }))
              .step("hits", filter(where("$.score", "gte", 0.05)), ({ steps }) => steps.search.results),
          ),
      )
      .step("results", schemaMap({ results: "$" })),
  );

const paymentAuthorize = tool("payment_authorize", "1.0.0", {
  description: "Check whether a charge would succeed, without charging",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: PaymentRequest,
  outputSchema: {
    properties: {
      authorized: { type: "boolean" },
      orderId: { type: "string" },
      reason: { description: "Reason if not authorized", type: "string" },
      transactions: { items: Transaction, type: "array" },
    },
    required: ["orderId", "authorized", "transactions"],
    type: "object",
  },
}).source(paymentService);

const paymentCharge = tool("payment_charge", "1.0.0", {
  description: "Charge an order; every call makes a new charge",
  annotations: { destructiveHint: true, idempotentHint: false, readOnlyHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: PaymentRequest,
  outputSchema: Transaction,
}).source(paymentService);

const paymentRefund = tool("payment_refund", "1.0.0", {
  description: "Refund in full; repeated calls change nothing",
  annotations: { destructiveHint: true, idempotentHint: true, readOnlyHint: false },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      orderId: { description: "Or all transactions of this order", type: "string" },
      transactionId: { description: "Id of one transaction", type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: {
      changed: { description: "Number of records changed by this call", minimum: 0, type: "integer" },
      transactions: { items: Transaction, type: "array" },
    },
    required: ["transactions", "changed"],
    type: "object",
  },
}).source(paymentService);

const shippingCreate = tool("shipping_create", "1.0.0", {
  description: "Create a shipping label and schedule the pickup",
  annotations: { destructiveHint: false, idempotentHint: false, readOnlyHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      address: Address,
      items: { items: OrderLine, type: "array" },
      orderId: { minLength: 1, type: "string" },
    },
    required: ["orderId", "address", "items"],
    type: "object",
  },
  outputSchema: Shipment,
}).source(shippingService);

const shippingCancel = tool("shipping_cancel", "1.0.0", {
  description: "Cancel a shipment; repeated calls change nothing",
  annotations: { destructiveHint: true, idempotentHint: true, readOnlyHint: false },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      orderId: { description: "Or all shipments of this order", type: "string" },
      trackingNumber: { description: "Tracking number of one shipment", type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: {
      changed: { description: "Number of records changed by this call", minimum: 0, type: "integer" },
      shipments: { items: Shipment, type: "array" },
    },
    required: ["shipments", "changed"],
    type: "object",
  },
}).source(shippingService);

const processOrder = tool("process_order", "1.0.0", {
  description: "Reserve, charge and ship an order; a failure compensates completed steps",
  metadata: { tags: ["orders"] },
  inputSchema: OrderRequest,
  outputSchema: OrderResult,
})
  .composition(
    saga(OrderRequest, { id: (input) => input.orderId, timeoutMs: 30000 })
      .step("reserve_inventory", {
        name: "Reserve inventory",
        action: inventoryReserve,
        compensate: inventoryRelease,
        input: ({ input }) => ({ items: input.items, orderId: input.orderId }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .step("charge_payment", {
        name: "Charge payment",
        action: paymentCharge,
        compensate: paymentRefund,
        input: ({ input }) => ({
          amount: input.totalAmount,
          currency: input.currency,
          orderId: input.orderId,
          paymentMethod: input.paymentMethod,
        }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .step("create_shipment", {
        name: "Create shipment",
        action: shippingCreate,
        compensate: shippingCancel,
        input: ({ input }) => ({ address: input.shippingAddress, items: input.items, orderId: input.orderId }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .output(({ input, steps }) => ({
        estimatedDelivery: steps.create_shipment.estimatedDelivery,
        orderId: input.orderId,
        reservationId: steps.reserve_inventory.reservationId,
        status: "completed",
        trackingNumber: steps.create_shipment.trackingNumber,
        transactionId: steps.charge_payment.transactionId,
      })),
  );

const readGraph = tool("read_graph", "1.0.0", {
  description: "Read the whole knowledge graph",
  metadata: { tags: ["knowledge"] },
  inputSchema: { additionalProperties: false, properties: {}, type: "object" },
  outputSchema: {
    properties: {
      entities: { items: KnowledgeEntity, type: "array" },
      relations: { items: KnowledgeRelation, type: "array" },
    },
    required: ["entities", "relations"],
    type: "object",
  },
}).source(memoryServer);

// Agents

const researchAgent = agent("research-agent", "2.1.0", {
  description: "Gathers and weighs information on a topic",
  url: "http://research-agent.internal:9000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  provider: { organization: "Knowledge team", url: "https://knowledge.example.com" },
  capabilities: {
    streaming: true,
    pushNotifications: false,
    stateTransitionHistory: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("research_topic", {
    name: "Research topic",
    description: "Researches a topic and returns findings, evidence and confidence",
    tags: ["research", "analysis", "citations"],
    examples: ["Research the state of quantum computing", "Compare the markets for electric vehicles in 2026"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
    inputSchema: ResearchRequest,
    outputSchema: ResearchReport,
  })
  .skill("quick_lookup", {
    name: "Quick lookup",
    description: "Answers a factual question without deep research",
    tags: ["lookup", "facts"],
    examples: ["What is the capital of France?"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(searchDocuments, fetch, createEntities);

const summarizerAgent = agent("summarizer-agent", "2.0.0", {
  description: "Turns long texts into short ones",
  url: "http://summarizer.internal:9001",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  provider: { organization: "Knowledge team", url: "https://knowledge.example.com" },
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Uses only its model", required: true }],
  },
})
  .skill("summarize", {
    name: "Summarize",
    description: "Summarizes a text and lists its key points",
    tags: ["summarization", "nlp"],
    examples: ["Summarize this article in three bullet points"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
    inputSchema: SummarizeRequest,
    outputSchema: SummarizeResponse,
  })
  .skill("extract_keywords", {
    name: "Extract keywords",
    description: "Finds important terms and phrases",
    tags: ["extraction", "nlp"],
    inputModes: ["text"],
    outputModes: ["application/json"],
    outputSchema: {
      properties: {
        keywords: { items: { type: "string" }, type: "array" },
        phrases: { items: { type: "string" }, type: "array" },
      },
      type: "object",
    },
  })
  .dependsOn();

// Tools

const researchAndSummarize = tool("research_and_summarize", "1.0.0", {
  description: "Research a topic and summarize the report; returns both",
  metadata: { tags: ["research"] },
  inputSchema: ResearchRequest,
  outputSchema: {
    properties: { executiveSummary: SummarizeResponse, research: ResearchReport },
    required: ["research", "executiveSummary"],
    type: "object",
  },
})
  .composition(
    pipeline(ResearchRequest)
      .step("research", researchAgent.skills.research_topic)
      .step("summarize", summarizerAgent.skills.summarize, ({ steps }) => ({
        content: steps.research.summary,
        style: "executive",
      }))
      .step("both", schemaMap({ executiveSummary: "$.executiveSummary", research: "$.research" }), ({ steps }) => ({
        executiveSummary: steps.summarize,
        research: steps.research,
      })),
  );

const shippingTrack = tool("shipping_track", "1.0.0", {
  description: "Get the status of a shipment",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: {
    additionalProperties: false,
    properties: {
      orderId: { description: "Or all shipments of this order", type: "string" },
      trackingNumber: { description: "Tracking number of one shipment", type: "string" },
    },
    type: "object",
  },
  outputSchema: {
    properties: { shipments: { items: Shipment, type: "array" } },
    required: ["shipments"],
    type: "object",
  },
}).source(shippingService);

// Agents

const adkDemoAgent = agent("adk-demo-agent", "1.0.0", {
  description: "Demo of Google ADK: tasks, people and orders",
  url: "http://localhost:3000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text"],
  defaultOutputModes: ["text"],
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("orchestrate", {
    name: "Task orchestrator",
    description: "Manages tasks, informs people and processes orders",
    tags: ["tasks", "orchestration", "saga"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(
    createTask,
    listTasks,
    completeTask,
    listUsers,
    getUser,
    searchUsersByBio,
    sendNotification,
    getNotifications,
    inventoryCheck,
    paymentAuthorize,
    shippingTrack,
    processOrder,
    multiSearch,
    createTaskAndNotify,
  );

const claudeDemoAgent = agent("claude-demo-agent", "1.0.0", {
  description: "Demo of the Claude Agent SDK: research and knowledge",
  url: "http://localhost:3000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text"],
  defaultOutputModes: ["text"],
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("research", {
    name: "Research assistant",
    description: "Researches topics, reads web pages, keeps documents and knowledge",
    tags: ["research", "documents", "knowledge-graph"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(
    searchDocuments,
    createDocument,
    getDocument,
    listDocuments,
    createNote,
    fetch,
    getWebpage,
    getPageTitle,
    readGraph,
    createEntities,
    createRelations,
    getCurrentTime,
    fetchAndStore,
  );

const orchestratorAgent = agent("orchestrator-agent", "1.0.0", {
  description: "Delegates complex work to other agents",
  url: "http://orchestrator.internal:9002",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  security: [{ bearer: [] }],
  securitySchemes: { bearer: { scheme: "bearer", type: "http" } },
  capabilities: {
    streaming: true,
    stateTransitionHistory: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("complex_task", {
    name: "Complex task",
    description: "Plans a task of several steps and delegates them",
    tags: ["orchestration", "delegation", "planning"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
  })
  .dependsOn(
    researchAgent.skills.research_topic,
    summarizerAgent.skills.summarize,
    createTask,
    sendNotification,
    researchAndSummarize,
  );

// Servers

documentService.provides(searchDocuments, createDocument, getDocument, listDocuments);

inventoryService.provides(inventoryReserve, inventoryRelease, inventoryCheck);

memoryServer.provides(readGraph, createEntities, createRelations);

paymentService.provides(paymentCharge, paymentRefund, paymentAuthorize);

taskService.provides(createTask, listTasks, completeTask);

userService.provides(listUsers, getUser, searchUsersByBio);

export default registry([
  Address,
  CreateDocumentRequest,
  CreateTaskRequest,
  Document,
  FetchRequest,
  FetchedPage,
  KnowledgeEntity,
  KnowledgeRelation,
  Notification,
  OrderLine,
  OrderRequest,
  OrderResult,
  PageRequest,
  PaymentMethod,
  PaymentRequest,
  ResearchReport,
  ResearchRequest,
  Reservation,
  SearchFilters,
  SearchQuery,
  SearchResult,
  SearchResults,
  Shipment,
  SummarizeRequest,
  SummarizeResponse,
  Task,
  Transaction,
  User,
  documentService,
  fetchServer,
  inventoryService,
  memoryServer,
  notificationService,
  paymentService,
  shippingService,
  taskService,
  timeServer,
  userService,
  completeTask,
  createDocument,
  createEntities,
  createNote,
  createRelations,
  createTask,
  createTaskAndNotify,
  fetch,
  fetchAndStore,
  getCurrentTime,
  getDocument,
  getNotifications,
  getPageTitle,
  getUser,
  getWebpage,
  inventoryCheck,
  inventoryRelease,
  inventoryReserve,
  listDocuments,
  listTasks,
  listUsers,
  multiSearch,
  paymentAuthorize,
  paymentCharge,
  paymentRefund,
  processOrder,
  readGraph,
  researchAndSummarize,
  searchDocuments,
  searchUsersByBio,
  sendNotification,
  shippingCancel,
  shippingCreate,
  shippingTrack,
  adkDemoAgent,
  claudeDemoAgent,
  orchestratorAgent,
  researchAgent,
  summarizerAgent,
]);
